package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

// foldingDirs makes no directory beside another whose name differs in case.
type foldingDirs struct {
	system
	made map[string]string
}

func (s foldingDirs) key(dir handle, name string) string {
	st, _ := s.system.stat(dir, "", false)
	return fmt.Sprintf("%d/%s", st.ino, strings.ToLower(name))
}

func (s foldingDirs) mkdir(dir handle, name string, perm fs.FileMode) error {
	if s.made[s.key(dir, name)] != "" {
		return unix.EEXIST
	}
	s.made[s.key(dir, name)] = name
	return s.system.mkdir(dir, name, perm)
}

func (s foldingDirs) stat(dir handle, name string, full bool) (status, error) {
	if first := s.made[s.key(dir, name)]; first != "" {
		name = first
	}
	return s.system.stat(dir, name, full)
}

// Two directories do not become one where names fold.
func TestMoveAcrossWhereNamesFold(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for _, name := range []string{"tree/Case", "tree/case"} {
			must(t, os.MkdirAll(base+"/root/"+name, 0o700))
			must(t, os.WriteFile(base+"/root/"+name+"/in "+filepath.Base(name), nil, 0o600))
		}
		was := seal(t, base+"/root/tree")
		r.sys = foldingDirs{r.sys, map[string]string{}}
		_, err := r.Move("tree", "m/new", MoveOptions{CrossDevice: true})
		want(t, "Move", err, fs.ErrExist)
		if now := seal(t, base+"/root/tree"); now != was || exists(base+"/root/m/new") {
			t.Errorf("%s\nwas\n%s", now, was)
		}
	})
}

// takenAtOnce takes the new name away as soon as a stage has it.
type takenAtOnce struct {
	system
	take func()
}

func (s takenAtOnce) rename(a handle, n string, b handle, m string, how renameHow) error {
	err := s.system.rename(a, n, b, m, how)
	if err == nil && isStageName(n) {
		s.take()
	}
	return err
}

// A new name that is taken away at once is a change, no absence: the source is there.
func TestMoveAcrossTakenAtOnce(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for _, name := range []string{"tree", "link"} {
			sources(t, base)
			was, _ := shape(t, base+"/root/"+name)
			real := r.sys
			r.sys = takenAtOnce{real, func() { must(t, os.Rename(base+"/root/m/new", base+"/root/m/taken")) }}
			receipt, err := r.Move(name, "m/new", MoveOptions{CrossDevice: true})
			r.sys = real
			want(t, name, err, ErrChanged)
			if errors.Is(err, fs.ErrNotExist) || receipt.Published == identity.Unpublished {
				t.Errorf("%s: %+v, %v", name, receipt, err)
			}
			for _, at := range []string{name, "m/taken"} {
				if now, _ := shape(t, base+"/root/"+at); now != was {
					t.Errorf("%s: %s: %s, was %s", name, at, now, was)
				}
			}
		}
		sources(t, base)
	})
}

// The window is between the call that makes the stage of a directory and the one
// that holds it: an empty directory in which others may do what they like is not
// taken for it.
func TestMoveAcrossIntoStageOfAnother(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for what, make := range map[string]func(dir string) error{
			"for all":        func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o777)) },
			"of another":     func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chown(dir, 1234, 1234)) },
			"of a group too": func(dir string) error { return errors.Join(os.Mkdir(dir, 0o700), os.Chmod(dir, 0o730|fs.ModeSetgid)) },
		} {
			if what == "of another" && os.Geteuid() != 0 {
				continue
			}
			sources(t, base)
			was, theirs := seal(t, base+"/root/tree"), ""
			s := hook(r, once("open STAGE", func() {
				found, _ := filepath.Glob(base + "/root/m/" + stagePrefix + "*")
				theirs = found[0]
				must(t, os.Remove(theirs))
				must(t, make(theirs))
			}))
			_, err := r.Move("tree", "m/new", MoveOptions{CrossDevice: true})
			r.sys = s.system
			want(t, what, err, ErrChanged)
			if seal(t, base+"/root/tree") != was || exists(base+"/root/m/new") {
				t.Errorf("%s: changed", what)
			}
			if s.count("unnamed") != 0 {
				t.Errorf("%s: files were copied", what)
			}
			gone(t, theirs) // empty, it harms nobody
		}
		sources(t, base)
	})
}

// foreign is a file system with an owner of its own for all.
type foreign struct {
	system
	dev uint64
}

func (s foreign) stat(dir handle, name string, full bool) (status, error) {
	st, err := s.system.stat(dir, name, full)
	if st.dev == s.dev {
		st.uid = 4242
	}
	return st, err
}

// A file system that has its own owner for all gets directories too.
func TestMoveAcrossToForeignOwner(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		sources(t, base)
		var m unix.Stat_t
		must(t, unix.Stat(base+"/root/m", &m))
		real := r.sys
		r.sys = foreign{real, m.Dev}
		_, err := r.Move("tree", "m/new", MoveOptions{CrossDevice: true})
		r.sys = real
		must(t, err)
		noStageBelow(t, base+"/root/m", "Move")
		if content(t, base, "m/new/a") != "twelve bytes" || exists(base+"/root/tree") {
			t.Error("not moved")
		}
		sources(t, base)
	})
}

// flushes notes which objects were flushed, and which of them when a stage got its name.
type flushes struct {
	system
	now, then map[uint64]int
}

func (s *flushes) sync(h handle) error {
	if st, err := s.system.stat(h, "", false); err == nil {
		s.now[st.ino]++
	}
	return s.system.sync(h)
}

func (s *flushes) rename(a handle, n string, b handle, m string, how renameHow) error {
	if isStageName(n) {
		s.then, s.now = s.now, map[uint64]int{}
	}
	return s.system.rename(a, n, b, m, how)
}

// Before the new name, everything below it is on the disk, each once.
func TestMoveTreeAcrossFlushes(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		for _, d := range []Durability{DurabilityDir, DurabilityFile, DurabilityNone} {
			sources(t, base)
			must(t, os.Mkdir(base+"/root/tree/sub/links", 0o700))
			must(t, os.Symlink("gone", base+"/root/tree/sub/links/link"))
			f := &flushes{system: r.sys, now: map[uint64]int{}}
			r.sys = f
			p := r.policy.Durability
			r.policy.Durability = d
			receipt, err := r.Move("tree", "m/new", MoveOptions{CrossDevice: true})
			r.sys, r.policy.Durability = f.system, p
			must(t, err)
			if receipt.Durability != d {
				t.Errorf("%v: %v", d, receipt.Durability)
			}
			must(t, filepath.Walk(base+"/root/m/new", func(path string, info fs.FileInfo, err error) error {
				must(t, err)
				flushed := 0
				if info.IsDir() && d == DurabilityDir || info.Mode().IsRegular() && d != DurabilityNone {
					flushed = 1
				}
				var st unix.Stat_t
				must(t, unix.Lstat(path, &st))
				if f.then[st.Ino] != flushed {
					t.Errorf("%v: %s flushed %d times, want %d", d, path, f.then[st.Ino], flushed)
				}
				return nil
			}))
		}
		sources(t, base)
	})
}

// A file moved to another file system is read: the limit holds, alone or in a tree.
func TestMoveAcrossObeysMaxRead(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		sources(t, base)
		p := Compat()
		p.MaxReadBytes = 11
		sub, err := r.Grant(".", Grant{Policy: p})
		must(t, err)
		defer sub.Close()
		was := seal(t, base+"/root/tree")
		for _, name := range []string{"tree", "tree/a"} {
			_, err = sub.Move(name, "m/new", MoveOptions{CrossDevice: true})
			want(t, name, err, ErrTooLarge)
		}
		if seal(t, base+"/root/tree") != was || len(listed(t, base+"/root/m")) != 0 {
			t.Error("changed")
		}
		_, err = sub.Move("file", "m/new", MoveOptions{CrossDevice: true})
		must(t, err)
		sources(t, base)
	})
}

// lostMkdir makes stages and answers that it failed.
type lostMkdir struct{ system }

func (s lostMkdir) mkdir(dir handle, name string, perm fs.FileMode) error {
	err := s.system.mkdir(dir, name, perm)
	if err == nil && isStageName(name) {
		err = unix.EIO
	}
	return err
}

// A stage whose making lost its reply is taken away, and stays charged.
func TestMoveAcrossLostStageStaysCharged(t *testing.T) {
	eachDevice(t, "size=4m", func(t *testing.T, r *Root, base string) {
		sources(t, base)
		sub, err := r.Grant(".", Grant{Policy: Compat(), Budget: &Budget{NoLimit, NoLimit}})
		must(t, err)
		defer sub.Close()
		sub.sys = lostMkdir{sub.sys}
		_, err = sub.Move("tree", "m/new", MoveOptions{CrossDevice: true})
		want(t, "Move", err, unix.EIO)
		if len(listed(t, base+"/root/m")) != 0 || sub.Spent() != (Budget{Files: 1}) {
			t.Errorf("%v, spent %+v", listed(t, base+"/root/m"), sub.Spent())
		}
		sources(t, base)
	})
}
