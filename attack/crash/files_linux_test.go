package crash

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/caproot/caproot"
)

// allFeatures are the kernels that a victim has in turn.
var allFeatures = []string{"", "tmpfile", "", "openat2", "", "tmpfile,openat2"}

func fileWorks() []*work {
	return []*work{putWork(), swapWork(), batchWork(), removeWork()}
}

// putWork replaces one file and makes others.
func putWork() *work {
	return &work{
		name: "put", lacks: allFeatures, litter: 1,
		prepare: func(s *scene) error { return os.Mkdir(s.path("new"), 0o755) },
		live: func(s *scene) error {
			s.ready()
			for v := s.done[victim].Load() + 1; ; v++ {
				if err := s.put(v); err != nil {
					return err
				}
			}
		},
		check: func(s *scene) []string {
			wrong := s.follows("target", &s.done[victim])
			made, err := os.ReadDir(s.path("new"))
			if err != nil {
				return append(wrong, err.Error())
			}
			for _, e := range made {
				_, err := s.at("new/" + e.Name())
				if private := strings.HasPrefix(e.Name(), "."); private && !strings.Contains(s.lacks, "tmpfile") || !private && err != nil {
					wrong = append(wrong, fmt.Sprintf("new/%s: %v", e.Name(), err))
				} else if !private {
					os.Remove(s.path("new/" + e.Name())) // or there is more to see after each kill
				}
			}
			return wrong
		},
		restore: func(s *scene) error {
			return errors.Join(s.sweep(".", "new"), s.put(s.done[victim].Load()+1))
		},
	}
}

// put makes version v of the target, tells so, and makes a new file.
func (s *scene) put(v int64) error {
	content := version{v}.encode()
	if _, err := s.root.Put("target", content, caproot.PutOptions{}); err != nil {
		return err
	}
	s.done[victim].Store(v)
	if _, err := s.root.Put(fmt.Sprint("new/", v), content, caproot.PutOptions{}); err != nil {
		return err
	}
	return s.root.RemoveAll(fmt.Sprint("new/", v-3))
}

// sweep is what a program does as it starts.
func (s *scene) sweep(dirs ...string) error {
	for _, dir := range dirs {
		if _, err := s.root.Sweep(dir); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
	}
	return nil
}

// swapWork is compare-and-swap by two processes.
func swapWork() *work {
	return &work{
		name: "put if match", lacks: allFeatures, bystander: true,
		prepare: func(s *scene) error {
			_, err := s.root.Put("target", version{}.encode(), caproot.PutOptions{})
			return err
		},
		live: func(s *scene) error {
			return s.forever(func() error { return s.swap(nil) })
		},
		restore: func(s *scene) error {
			if err := s.sweep("."); err != nil {
				return err
			}
			return s.swap(s.agrees)
		},
		// What an exchange displaced may be the only copy of it.
		stays: func(name string) bool { return strings.HasPrefix(name, ".caproot-stage-of-") },
	}
}

// swap adds one to the number of its seat, and tells so. Before that see looks
// at what is replaced.
func (s *scene) swap(see func(version) error) error {
	for {
		old, err := s.root.Receipt("target")
		if err != nil {
			return err
		}
		v, err := s.at("target")
		if err != nil {
			return err
		}
		next := v
		next[s.seat]++
		_, err = s.root.Put("target", next.encode(), caproot.PutOptions{IfMatch: &old})
		switch {
		case errors.Is(err, caproot.ErrChanged), errors.Is(err, caproot.ErrUnstable):
			continue // the other one was first
		case err != nil:
			return err
		}
		if see != nil {
			err = see(v)
		}
		s.done[s.seat].Add(1)
		return err
	}
}

// agrees compares what was there with what the workers told, who tell a moment
// after they did it.
func (s *scene) agrees(v version) error {
	for seat := range v {
		told := s.done[seat].Load()
		if v[seat] != told && v[seat] != told+1 && !(seat == bystander && v[seat] == told-1) {
			return fmt.Errorf("lost update: seat %d has %d, and %d were done", seat, v[seat], told)
		}
	}
	s.done[victim].Store(v[victim])
	return nil
}

const batchFiles = 6

func batchWork() *work {
	return &work{
		name: "batch", lacks: allFeatures, litter: batchFiles,
		live: func(s *scene) error {
			s.ready()
			for v := s.done[victim].Load() + 1; ; v++ {
				if err := s.batch(v); err != nil {
					return err
				}
			}
		},
		check: func(s *scene) (wrong []string) {
			told := s.done[victim].Load()
			before := told + 1
			for i := range batchFiles {
				var last atomic.Int64
				last.Store(told)
				wrong = append(wrong, s.follows(fmt.Sprint("b", i), &last)...)
				if last.Load() > before {
					wrong = append(wrong, fmt.Sprintf("b%d has version %d, and the one before it %d", i, last.Load(), before))
				}
				before = last.Load()
			}
			return wrong
		},
		restore: func(s *scene) error {
			return errors.Join(s.sweep("."), s.batch(s.done[victim].Load()+1))
		},
	}
}

func (s *scene) batch(v int64) error {
	b := s.root.Batch(caproot.BatchOptions{Barrier: caproot.BarrierFiles})
	for i := range batchFiles {
		if err := b.Put(fmt.Sprint("b", i), version{v}.encode(), caproot.PutOptions{}); err != nil {
			return errors.Join(err, b.Abort())
		}
	}
	_, err := b.Commit(context.Background())
	if err == nil {
		s.done[victim].Store(v)
	}
	return err
}

// removeWork removes trees with links to what must stay, and single files.
func removeWork() *work {
	return &work{
		name: "remove", lacks: []string{"", "openat2"},
		prepare: func(s *scene) error { return s.grow("keep") },
		live: func(s *scene) error {
			return s.forever(func() error { return s.fell() })
		},
		check: func(s *scene) (wrong []string) {
			for _, name := range grown() {
				if _, err := os.Lstat(s.path("keep/" + name)); err != nil {
					wrong = append(wrong, err.Error())
				}
			}
			if data, err := os.ReadFile(s.base + "/outside/f"); string(data) != "outside" {
				wrong = append(wrong, fmt.Sprintf("outside: %q, %v", data, err))
			}
			return wrong
		},
		restore: func(s *scene) error {
			_, err := s.root.RemoveTree(context.Background(), "tree", caproot.TreeLimits{Force: true})
			return errors.Join(err, s.root.RemoveAll("one"), s.fell())
		},
	}
}

// fell makes a tree and a file, and removes them.
func (s *scene) fell() error {
	if err := s.grow("tree"); err != nil {
		return err
	}
	if _, err := s.root.RemoveTree(context.Background(), "tree", caproot.TreeLimits{Workers: 2}); err != nil {
		return err
	}
	if err := s.root.WriteFile("one", []byte("one"), 0o644); err != nil {
		return err
	}
	if err := s.root.Remove("one"); err != nil {
		return err
	}
	s.done[victim].Add(1)
	list, err := os.ReadDir(s.path(""))
	if i := slices.IndexFunc(list, func(e os.DirEntry) bool { return e.Name() != "keep" }); i >= 0 {
		err = errors.Join(err, fmt.Errorf("still there: %s", list[i].Name()))
	}
	return err
}

// grown are the names of a tree, directories before what is in them.
func grown() (names []string) {
	for d := range 3 {
		dir := fmt.Sprint("d", d)
		names = append(names, dir+"/")
		for f := range 8 {
			names = append(names, fmt.Sprintf("%s/f%d", dir, f))
		}
		names = append(names, dir+"/out", dir+"/keep")
	}
	return names
}

// grow makes a tree with links to what is outside of it.
func (s *scene) grow(top string) error {
	err := os.MkdirAll(s.path(top), 0o755)
	for _, name := range grown() {
		path := s.path(top + "/" + name)
		switch {
		case strings.HasSuffix(name, "/"):
			err = errors.Join(err, os.MkdirAll(path, 0o755))
		case strings.HasSuffix(name, "/out"):
			err = errors.Join(err, os.Symlink("../../../outside", path))
		case strings.HasSuffix(name, "/keep"):
			err = errors.Join(err, os.Symlink("../../keep", path))
		default:
			err = errors.Join(err, os.WriteFile(path, []byte(name), 0o644))
		}
	}
	return err
}
