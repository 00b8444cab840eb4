package main

import (
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
)

type demoCommand struct{ jsonFlag }

// demo is a host that hands a plugin a part of a directory, and looks at what
// is around that part before and after.
type demo struct {
	s      *session
	json   bool
	base   string // of the scratch tree
	self   string // the program that holds a lock
	host   *caproot.Root
	plugin caproot.Plugin
	revoke func()
	wrong  int
	// Why an attempt cannot be made here; "" where it can.
	noSymlinks, noHardlinks string
}

// Places in the scratch tree.
const (
	demoPlugin   = "workspace/plugin"
	demoWithheld = "workspace/plugin/private"
	demoLocks    = "locks"
)

// demoText is what nothing of a plugin's may read.
const demoText = "not for plugins\n"

// Run is called by kong.
func (c *demoCommand) Run(s *session) error {
	self, err := os.Executable()
	if err != nil {
		return err
	}
	base, err := os.MkdirTemp("", "caproot-demo-")
	if err != nil {
		return inputError{err} // exit 1 would say that an attempt was not refused
	}
	defer os.RemoveAll(base)
	d := demo{s: s, json: c.JSON, base: base, self: self}
	if err = d.plant(); err == nil {
		err = d.open()
	}
	if err != nil {
		return inputError{err}
	}
	defer d.host.Close()
	defer d.plugin.Close()
	return d.run()
}

// plant makes what the plugin gets, what is around it, and what an attacker
// would leave in it.
func (d *demo) plant() error {
	files := map[string]string{
		"outside/secret.txt": demoText, "outside/dir/inner.txt": demoText, "workspace/host.txt": demoText,
		demoWithheld + "/key": demoText, demoPlugin + "/README.md": "for the plugin\n", demoPlugin + "/swap/secret.txt": "for the plugin\n",
	}
	for name, text := range files {
		path := filepath.Join(d.base, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			return err
		}
		if err := os.WriteFile(path, []byte(text), 0o644); err != nil {
			return err
		}
	}
	if err := os.Mkdir(filepath.Join(d.base, demoLocks), 0o755); err != nil {
		return err
	}
	in := func(name string) string { return filepath.Join(d.base, demoPlugin, name) }
	for name, target := range map[string]string{"out": "../../outside", "bait": "../../outside", "mine": "private"} {
		if err := os.Symlink(target, in(name)); err != nil || !there(in(name)) {
			d.noSymlinks = "no symbolic links here"
		}
	}
	if err := os.Link(filepath.Join(d.base, "outside", "secret.txt"), in("alias.txt")); err != nil {
		d.noHardlinks = "no hard links here"
	}
	return nil
}

// there sees that a link was made: Wine says so of links that it does not make.
func there(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// The plugin may spend a mebibyte.
const demoBudget = 1 << 20

// open makes the grant.
func (d *demo) open() (err error) {
	if d.host, err = caproot.Open(d.base, caproot.Workspace()); err != nil {
		return err
	}
	p := caproot.Workspace()
	p.Hardlinks = caproot.HardlinksRefuse
	grant, err := d.host.Grant(demoPlugin, caproot.Grant{
		Policy: p, Deny: []string{"private"}, Budget: &caproot.Budget{Bytes: demoBudget, Files: caproot.NoLimit},
	})
	if err != nil {
		d.host.Close()
		return err
	}
	d.plugin, d.revoke = grant.Plugin(), grant.Revoke
	return nil
}

// attempted is the JSON form of an attempt.
type attempted struct {
	Attempt string `json:"attempt"`
	Call    string `json:"call"`
	Code    string `json:"code"` // of the refusal; "" where there was none
	Note    string `json:"note,omitempty"`
	Refused bool   `json:"refused"`
}

// allowedWrite is the JSON form of the write that the plugin may make.
type allowedWrite struct {
	Receipt identity.Receipt `json:"receipt"`
}

// around is the JSON form of the comparison at the end.
type around struct {
	Outside string   `json:"outside"` // unchanged, changed
	Objects int      `json:"objects"`
	Changed []string `json:"changed,omitempty"`
}

func (d *demo) run() error {
	if err := d.head(); err != nil {
		return err
	}
	attempts := append(specialAttempts(d), d.attempts()...)
	before, err := takeSeal(d.base)
	if err != nil {
		return err
	}
	for _, a := range attempts {
		if err := d.try(a); err != nil {
			return err
		}
	}
	if err := d.race(); err != nil {
		return err
	}
	if err := d.write(); err != nil {
		return err
	}
	d.revoke()
	if err := d.try(afterRevoke(d)); err != nil {
		return err
	}
	if err := d.killHolder(); err != nil {
		return err
	}
	return d.compare(before)
}

func (d *demo) head() error {
	if d.json {
		return nil
	}
	_, err := fmt.Fprintf(d.s.out, "A plugin gets the directory plugin/ of a workspace, without private/, and 1 MiB to write.\n%-20s %-38s %s\n",
		"attempt", "call", "answer")
	return err
}

// line writes a row of the table, or its JSON form.
func (d *demo) line(a attempted) error {
	if !a.Refused {
		d.wrong++
	}
	if d.json {
		return d.s.writeJSON(a)
	}
	answer := a.Code
	switch {
	case a.Note != "":
		answer = a.Note
	case answer == "":
		answer = "done"
	}
	if !a.Refused {
		answer = "NOT REFUSED: " + answer
	}
	_, err := fmt.Fprintf(d.s.out, "%-20s %-38s %s\n", a.Attempt, a.Call, answer)
	return err
}

// write is what the plugin is for.
func (d *demo) write() error {
	receipt, err := d.plugin.Put("notes/today.md", []byte("written by the plugin\n"), caproot.PutOptions{Parents: true, Digest: true})
	if err != nil {
		return err
	}
	if d.json {
		return d.s.writeJSON(allowedWrite{receipt})
	}
	_, err = fmt.Fprintf(d.s.out, "%-20s %-38s %s, %d bytes, sha256 %.8s…\n", "(allowed)", "Put notes/today.md", receipt.Published, receipt.Size,
		receipt.SHA256)
	return err
}

// compare looks at everything around the plugin's directory again.
func (d *demo) compare(before seal) error {
	changed, err := before.changes(d.base)
	if err != nil {
		return err
	}
	a := around{Outside: "unchanged", Objects: len(before), Changed: changed}
	if len(changed) > 0 {
		a.Outside = "changed"
	}
	if d.json {
		err = d.s.writeJSON(a)
	} else {
		_, err = fmt.Fprintf(d.s.out, "%-20s %s\n", "outside", a.text())
	}
	switch {
	case err != nil:
		return err
	case len(changed) > 0:
		return refusal{"changed", "something outside was changed or read"}
	case d.wrong > 0:
		return refusal{"changed", fmt.Sprintf("%d attempts were not refused", d.wrong)}
	}
	return nil
}

func (a *around) text() string {
	if len(a.Changed) == 0 {
		return fmt.Sprintf("unchanged: %d objects by content, entries, mode, owner, links and times", a.Objects)
	}
	text := "CHANGED:"
	for _, name := range a.Changed {
		text += " " + shown(name)
	}
	return text
}

// patience is how long an attempt may take before it counts as blocked.
const patience = time.Second

var errBlocked = fmt.Errorf("blocked for %v", patience)

// try makes an attempt. It must end in one of the refusals that are right for it.
func (d *demo) try(a attempt) error {
	if a.untried != "" {
		return d.line(attempted{Attempt: a.what, Call: a.call, Note: "not tried: " + a.untried, Refused: true})
	}
	done := make(chan error, 1)
	go func() { done <- a.do(d.plugin) }()
	row := attempted{Attempt: a.what, Call: a.call}
	var err error
	select {
	case err = <-done:
	case <-time.After(patience):
		err = errBlocked
	}
	row.Code = caproot.Code(err)
	row.Refused = row.Code == a.want
	if err == errBlocked {
		row.Note = err.Error()
	}
	return d.line(row)
}

// sealed walks what the plugin has no business with: all but its directory, but
// for the part of that which is withheld, and but for the locks.
func sealed(base string, look func(path, name string) error) error {
	return filepath.WalkDir(base, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		name, err := filepath.Rel(base, path)
		if err != nil {
			return err
		}
		name = filepath.ToSlash(name)
		switch {
		case name == demoLocks:
			return fs.SkipDir
		case name == demoPlugin:
			return nil
		case filepath.ToSlash(filepath.Dir(name)) == demoPlugin && name != demoWithheld:
			if e.IsDir() {
				return fs.SkipDir
			}
			return nil
		}
		return look(path, name)
	})
}
