package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"slices"
	"strings"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/pathsafe"
)

type auditCommand struct {
	rootFlags
	jsonFlag
}

// The findings of an audit. docs/cli.md says what each of them is.
const (
	escapingLink    = "escaping-link"
	absoluteLink    = "absolute-link"
	danglingLink    = "dangling-link"
	hardlinkOutside = "hardlink-outside"
	device          = "device"
	fifo            = "fifo"
	socket          = "socket"
	irregular       = "irregular"
	setuid          = "setuid"
	setgid          = "setgid"
	worldWritable   = "world-writable"
	mountPoint      = "mount"
	nameCollision   = "name-collision"
	unportableName  = "unportable-name"
	staleLock       = "stale-lock"
	staleGuard      = "stale-guard"
	leftoverStage   = "leftover-stage"
	leftoverRecord  = "leftover-record"
)

var auditFindings = []string{
	escapingLink, absoluteLink, danglingLink, hardlinkOutside, device, fifo, socket, irregular, setuid, setgid, worldWritable, mountPoint,
	nameCollision, unportableName, staleLock, staleGuard, leftoverStage, leftoverRecord,
}

// flaw is the JSON form of a finding.
type flaw struct {
	Finding string `json:"finding"`
	label
	Mode      string  `json:"mode,omitempty"`
	Target    *string `json:"target,omitempty"` // of a link
	TargetB64 []byte  `json:"target_b64,omitempty"`
	Other     *string `json:"other,omitempty"` // the name it collides with
	OtherB64  []byte  `json:"other_b64,omitempty"`
	Links     uint64  `json:"links,omitempty"` // names the file has
	Found     uint64  `json:"found,omitempty"` // those that were seen
	Reason    string  `json:"reason,omitempty"`
}

// audited is the JSON form of the end of an audit.
type audited struct {
	Entries  int `json:"entries"`
	Findings int `json:"findings"`
}

// audit is one look at everything in a root. In memory it keeps a hash for each
// name of the directories that it is in, and each file of which it has not seen
// all the names.
type audit struct {
	s        *session
	r        *caproot.Root
	json     bool
	now      time.Time
	progress progress
	code     int
	sum      audited
	names    collisions
	links    map[fileKey]*multiple
}

// inspecting are the rights that lock.Inspect asks for, as every use of a lock
// does, and does not use.
const inspecting = caproot.Create | caproot.Modify | caproot.Mkdir | caproot.Move | caproot.Remove

// Run is called by kong.
func (c *auditCommand) Run(s *session) error {
	p, err := c.policy()
	if err != nil {
		return err
	}
	// Links are followed to see where they lead, every name is looked at, and
	// what is mounted is a finding and not a part of the tree.
	p.Links, p.Mounts, p.Names = caproot.LinksFollow, caproot.MountsStay, pathsafe.Host
	p.Rights |= inspecting
	return c.withinBy(p, func(r *caproot.Root) error {
		a := audit{s: s, r: r, json: c.JSON, now: time.Now(), names: newCollisions(), links: map[fileKey]*multiple{}}
		a.progress = progress{to: s.err, on: !s.quiet && isTerminal(s.err), start: a.now}
		return a.run()
	})
}

func (a *audit) run() error {
	top, err := a.r.Lstat(".")
	if err != nil {
		return err
	}
	if err := a.modes(func() string { return "." }, top); err != nil {
		return err
	}
	o := caproot.WalkOptions{InlineErrors: true}
	for e, err := range a.r.Walk(context.Background(), ".", o) {
		switch {
		case errors.Is(err, caproot.ErrMount):
			continue // told with its entry
		case err != nil:
			a.leave(err)
			continue
		}
		if err := a.entry(e); err != nil {
			return err
		}
	}
	if err := a.collided(a.names.close(0)); err != nil {
		return err
	}
	if err := a.outside(); err != nil {
		return err
	}
	a.progress.clear()
	return a.end()
}

func (a *audit) end() error {
	if !a.s.quiet {
		a.s.note(fmt.Sprintf("looked at %d entries: %d findings", a.sum.Entries, a.sum.Findings))
	}
	if a.json {
		if err := a.s.writeJSON(a.sum); err != nil {
			return err
		}
	}
	if a.sum.Findings > 0 {
		a.code = worse(a.code, exitNo)
	}
	return ended(a.code)
}

// leave tells what could not be looked at.
func (a *audit) leave(err error) {
	a.progress.clear()
	a.code = worse(a.code, a.s.fail(err))
}

// entry looks at one entry. An error is of writing.
func (a *audit) entry(e caproot.Entry) error {
	a.sum.Entries++
	a.progress.found++
	a.progress.draw()
	if err := a.collided(a.names.add(e)); err != nil {
		return err
	}
	if why := pathsafe.Component(e.Name(), pathsafe.Portable); why != nil {
		if err := a.tell(flaw{Finding: unportableName, label: labelOf(e.Path()), Reason: ruleOf(why)}); err != nil {
			return err
		}
	}
	info, err := e.Info()
	switch {
	case errors.Is(err, fs.ErrNotExist):
		return nil // removed since its directory was read
	case errors.Is(err, caproot.ErrMount):
		return a.tell(flaw{Finding: mountPoint, label: labelOf(e.Path())})
	case err != nil:
		a.leave(err)
		return nil
	}
	return a.object(e, info)
}

// object looks at what an entry is.
func (a *audit) object(e caproot.Entry, info fs.FileInfo) error {
	switch mode := info.Mode(); {
	case mode&fs.ModeSymlink != 0:
		return a.link(e.Path())
	case mode.IsDir():
		if err := a.guard(e, info); err != nil {
			return err
		}
		return a.modes(e.Path, info)
	case !mode.IsRegular():
		return a.tell(flaw{Finding: special(mode), label: labelOf(e.Path())})
	}
	if err := a.count(e, info); err != nil {
		return err
	}
	if err := a.modes(e.Path, info); err != nil {
		return err
	}
	if err := a.guard(e, info); err != nil {
		return err
	}
	return a.remains(e, info)
}

func special(mode fs.FileMode) string {
	switch typeName(mode) {
	case "fifo":
		return fifo
	case "socket":
		return socket
	case "char", "block":
		return device
	}
	return irregular
}

// modes looks at the bits that give others something. A sticky directory lets
// nobody remove what is not his, so it may be open to all. The path is made for a
// finding only: in a deep tree it is long.
func (a *audit) modes(path func() string, info fs.FileInfo) error {
	mode := info.Mode()
	for _, m := range []struct {
		finding string
		has     bool
	}{
		{setuid, mode&fs.ModeSetuid != 0},
		{setgid, mode&fs.ModeSetgid != 0},
		{worldWritable, modesTell && mode.IsDir() && mode&0o002 != 0 && mode&fs.ModeSticky == 0},
	} {
		if !m.has {
			continue
		}
		if err := a.tell(flaw{Finding: m.finding, label: labelOf(path()), Mode: formatMode(mode)}); err != nil {
			return err
		}
	}
	return nil
}

// link looks at where a link leads.
func (a *audit) link(name string) error {
	target, err := a.r.Readlink(name)
	if err != nil {
		return a.unless(err)
	}
	f := flaw{label: labelOf(name)}
	f.Target, f.TargetB64 = labelOf(target).fields()
	if absolute, _ := pathsafe.Target(target, pathsafe.Host); absolute {
		f.Finding = absoluteLink
		return a.tell(f)
	}
	_, err = a.r.Stat(name)
	switch code := caproot.Code(err); code {
	case "", "mount", "policy": // inside, be it withheld or a finding of its own
		return nil
	case "escape":
		f.Finding = escapingLink
	case "not-exist", "not-dir", "loop":
		f.Finding, f.Reason = danglingLink, code
	default:
		a.leave(err)
		return nil
	}
	return a.tell(f)
}

// unless tells an error of an entry that is still there.
func (a *audit) unless(err error) error {
	if !errors.Is(err, fs.ErrNotExist) {
		a.leave(err)
	}
	return nil
}

// tell writes a finding.
func (a *audit) tell(f flaw) error {
	a.progress.clear()
	a.sum.Findings++
	if a.json {
		return a.s.writeJSON(f)
	}
	_, err := fmt.Fprintf(a.s.out, "%-16s %s%s\n", f.Finding, shown(f.text()), f.detail())
	return err
}

func (f *flaw) detail() string {
	var out []string
	switch {
	case f.Target != nil || f.TargetB64 != nil:
		out = append(out, "-> "+shown(label{f.Target, f.TargetB64}.text()))
	case f.Other != nil || f.OtherB64 != nil:
		out = append(out, "is also "+shown(label{f.Other, f.OtherB64}.text()))
	case f.Links != 0:
		out = append(out, fmt.Sprintf("%d of %d names seen", f.Found, f.Links))
	}
	out = slices.DeleteFunc(append(out, f.Mode, f.Reason), func(s string) bool { return s == "" })
	if len(out) == 0 {
		return ""
	}
	return "  " + strings.Join(out, ", ")
}

func ruleOf(err error) string {
	if refused, ok := errors.AsType[*pathsafe.Error](err); ok {
		return string(refused.Rule)
	}
	return ""
}
