package caproot

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"slices"
	"strings"
	"sync"

	"github.com/hashicorp/go-multierror"

	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/pathsafe"
)

var verbCopyTree = verb{name: "copytree", needs: List}

// LinkCopy says what becomes of links in a tree that is copied.
type LinkCopy uint8

const (
	// LinksFail: a symbolic link is ErrSymlink, a file with further names ErrHardlink.
	LinksFail LinkCopy = iota
	// LinksSkip: symbolic links are left out, each hard link becomes a file.
	LinksSkip
	// LinksKeep: the copy has the same symbolic links, as far as the policy it is
	// made under has such targets, and the same hard links between its files. A name
	// becomes a link only if it is proved to lead to the file that was copied, and
	// that has the size and the times of modification and change that it had then:
	// else it becomes a file of its own, with what the source has now. A name that
	// somebody gives the file or takes from it, or a new mode, changes it too. Proof
	// is that the copy has had the file open since, as it has up to 64 files with
	// names to come, or what Receipt.Compare takes for proof (a handle of the kernel
	// or a generation). Without either a move is ErrUnsupported. The other end is not
	// proved: the name is one more of whatever the first copy's name leads to.
	LinksKeep
)

// TreeCopyOptions are the options of CopyTree. Zero limits nothing.
type TreeCopyOptions struct {
	// File holds for each file. Its Progress counts the bytes of the file at work.
	// Parents and IfMatch mean nothing here. Directories get the permission bits of
	// the source where File.KeepMode asks for that, else 0700.
	File CopyOptions
	// Symlinks and Hardlinks say what becomes of either kind.
	Symlinks  LinkCopy
	Hardlinks LinkCopy
	// MaxEntries, MaxDepth and MaxBytes limit the whole. What goes beyond is
	// ErrTooLarge and ends the copy. MaxBytes is of the content of the files that
	// are made: a file of which further names are kept counts once. A file whose
	// size is not told (procfs) is refused too while those that are copied beside
	// it hold the rest, though one of them may fail.
	MaxEntries int64
	MaxDepth   int
	MaxBytes   int64
	// GoOn makes a copy go on after an error, which the report then has.
	GoOn bool
	// Workers is how many files are copied side by side. Zero is one. With more,
	// Progress and Copied are called by several goroutines.
	Workers int
	// Copied is told each file, directory and link that was made. The receipt of
	// a directory or link has Op and Path only.
	Copied func(identity.Receipt)
}

// CopyReport tells what a copy of a tree did.
type CopyReport struct {
	Files, Dirs, Links int64
	Bytes              int64 // of the files, each counted once
	// Vanished counts entries that were removed or renamed between their listing
	// and the end of their copy, Stages what was left out as a stage.
	Vanished, Stages int64
	// Left has the first 100 entries that were not copied, by their names in the
	// source; LeftMore counts the others.
	Left     []LeftEntry
	LeftMore int64
}

// CopyTree copies what is in the directory srcName of src into the directory
// name, which is made if it is missing. What is there stays, and files of the
// same name are replaced unless File.NoReplace. Each file is published whole;
// the tree is not atomic, and a copy that fails leaves what it made.
//
// The source is walked through handles, and no link below either directory is
// followed, whatever the policies say. Entries that vanish meanwhile are passed
// over, and one that is renamed meanwhile may be missed or copied under both names.
// The copy holds at most 32 directories of its own, those it works in that are more
// than 32 below name, and makes what is in them relative to these: one that is moved
// meanwhile gets what is copied into it where it is then, as the walk of the source
// goes on in one. Under KernelAtomic each name is resolved whole, so that a path
// too long for the kernel is an error. The time a copy takes grows with the number
// of entries and with the length of their paths, which are told; with LinksKeep a
// further name far from the first costs the way between them.
// Stages (Sweep tells their form) are left out, those of dead processes too.
//
// It returns ErrChanged when a file changes while it is copied, and ErrName, with
// nothing copied, when name is the source or inside it: the copy would be its own
// source.
func (r *Root) CopyTree(ctx context.Context, name string, src *Root, srcName string, o TreeCopyOptions) (CopyReport, error) {
	var c call
	if err := c.begin(r, &verbCopyTree, name); err != nil {
		return CopyReport{}, err
	}
	defer c.end()
	if err := admitRunning(ctx, o.valid()); err != nil {
		return CopyReport{}, c.fail(err)
	}
	start, err := src.startOfCopy(srcName)
	if err == nil {
		err = r.notBelow(name, start, true)
	}
	if err == nil {
		err = r.mkdirPart(name, 0o700)
	}
	if err != nil {
		return CopyReport{}, c.fail(err)
	}
	to, err := r.openPart(name)
	if err != nil {
		return CopyReport{}, c.fail(err)
	}
	defer to.Close()
	to.policy.Links, to.policy.MutationLinks = LinksRefuse, LinksRefuse
	at, err := r.canonicalPart(name)
	if err != nil {
		return CopyReport{}, c.fail(err)
	}
	t := treeCopy{c: &c, ctx: ctx, o: &o, to: to, at: at, slots: make(chan struct{}, max(o.Workers, 1)), quota: newQuota(o.MaxBytes)}
	t.o.File.Parents, t.o.File.IfMatch = false, nil
	err = t.run(src, srcName)
	return t.report, c.fail(t.outcome(err))
}

// treeCopy is a CopyTree at work.
type treeCopy struct {
	c      *call
	ctx    context.Context
	o      *TreeCopyOptions
	to     *Root
	at     string // name of to below the root that was asked
	start  int    // length of the source's own part of a path
	slots  chan struct{}
	files  sync.WaitGroup
	modes  []dirMode
	took   *manifest // told what was copied; nil for nobody
	source *status   // of the directory that is copied, when that is held
	flush  bool      // each directory that was made
	lost   []string  // what the flushes could not give
	quota  *quota
	names  firstNames

	mu     sync.Mutex // guards the rest, and the report
	first  error
	report CopyReport
	fails  *multierror.Error
}

// dirMode is a directory whose mode is set when everything is in it.
type dirMode struct {
	of   Entry  // of the source
	name string // when it is finished
	mode fs.FileMode
	like *status // when it is moved: whose owner and times it gets
}

func (t *treeCopy) run(src *Root, srcName string) error {
	walk := WalkOptions{MaxEntries: t.o.MaxEntries, MaxDepth: t.o.MaxDepth, InlineErrors: t.o.GoOn, Filter: t.filter}
	if base := pathsafe.Canonical(srcName); base != "." {
		t.start = len(base) + 1
	}
	// The workers read from the source when the walk has left it.
	if err := src.enter(); err != nil {
		return err
	}
	defer src.leave()
	t.o.File.source, t.to.fills = src.tenure, true
	t.to.near = &nearDirs{}
	defer func() {
		t.to.near.close(t.to.sys)
		t.to.near = nil
	}()
	defer t.names.letGo()
	defer t.files.Wait() // the workers use what the caller closes when a callback panics
	for e, err := range src.walk(t.ctx, srcName, walk, t.source) {
		if err != nil && (!t.o.GoOn || errors.Is(err, errBudget) || t.ctx.Err() != nil) {
			t.end(cause(err))
			break
		}
		if err == nil {
			err = t.copy(e)
		}
		if t.passOver(err) {
			continue
		}
		if err != nil && !t.left(e.Path(), cause(err)) || t.ended() {
			break
		}
	}
	t.files.Wait()
	// The deepest first: a mode may take the way to what is below.
	for _, d := range slices.Backward(t.modes) {
		d.name = d.of.Path()[t.start:]
		if err := t.to.finishDir(d, t.flush, &t.lost); err != nil && !t.left(d.name, cause(err)) {
			break
		}
	}
	return t.first
}

// filter leaves stages out. A move takes them along: the new name has what the
// old one had.
func (t *treeCopy) filter(e Entry) WalkStep {
	if t.took != nil || !isStageName(e.Name()) {
		return WalkTake
	}
	t.count(&t.report.Stages)
	return WalkSkipTree
}

// errVanished is the answer for an entry of the source that lost its name.
var errVanished = because(ErrChanged, "the source vanished while it was copied")

// vanished gives errVanished for what looks like absence of an entry of the source.
func vanished(err error) error {
	if errors.Is(err, fs.ErrNotExist) {
		return errVanished
	}
	return err
}

// passOver counts what vanished. A move passes nothing over: somebody is at work
// in what it would remove.
func (t *treeCopy) passOver(err error) bool {
	if t.took != nil || !errors.Is(err, errVanished) {
		return false
	}
	t.count(&t.report.Vanished)
	return true
}

func (t *treeCopy) count(what *int64) {
	t.mu.Lock()
	defer t.mu.Unlock()
	*what++
}

// made counts what was made and tells of it, by its name below the root.
func (t *treeCopy) made(receipt identity.Receipt, count *int64) {
	t.count(count)
	if t.o.Copied == nil {
		return
	}
	if receipt.Path = path.Join(t.at, receipt.Path); receipt.Root.Known() {
		receipt.Root, _ = t.c.r.self()
	}
	t.o.Copied(receipt)
}

// end ends the copy for the first reason given.
func (t *treeCopy) end(why error) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.first == nil {
		t.first = why
	}
}

func (t *treeCopy) ended() bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.first != nil
}

// left reports what was not copied, and whether the copy goes on.
func (t *treeCopy) left(path string, err error) bool {
	if t.took != nil && errors.Is(err, fs.ErrNotExist) {
		// Not wrapped: what is not there any more is a part of the copy.
		err = because(ErrChanged, "the copy was changed while it was made: "+err.Error())
	}
	if !t.o.GoOn {
		t.end(&fs.PathError{Op: "copy", Path: path, Err: err})
		return false
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.report.Left) >= maxReported {
		t.report.LeftMore++
	} else {
		t.report.Left = append(t.report.Left, LeftEntry{path, err})
		t.fails = multierror.Append(t.fails, &fs.PathError{Op: "copy", Path: path, Err: err})
	}
	return t.first == nil
}

func (t *treeCopy) outcome(err error) error {
	slices.SortFunc(t.report.Left, func(a, b LeftEntry) int { return strings.Compare(a.Path, b.Path) })
	switch {
	case t.fails == nil:
		return err
	case err != nil:
		return multierror.Append(err, t.fails)
	}
	return t.fails
}
