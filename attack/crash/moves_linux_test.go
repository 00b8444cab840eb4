package crash

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/caproot/caproot"
)

func moveWorks() []*work {
	return []*work{moveWork(), acrossWork("file", moveAcross), acrossWork("tree", moveAcross)}
}

// moveWork moves a file and a directory to and fro, and a new file over an old one.
func moveWork() *work {
	return &work{
		name: "move", lacks: []string{"", "openat2"},
		prepare: func(s *scene) error {
			return errors.Join(os.MkdirAll(s.path("near/d/e"), 0o755), os.Mkdir(s.path("far"), 0o755),
				os.WriteFile(s.path("near/f"), version{}.encode(), 0o644))
		},
		live: func(s *scene) error {
			s.ready()
			for v := s.done[victim].Load() + 1; ; v++ {
				if err := s.moves(v); err != nil {
					return err
				}
			}
		},
		check: func(s *scene) []string {
			wrong := s.follows("target", &s.done[victim])
			for _, name := range []string{"f", "d/e"} {
				near, far := exists(s.path("near/"+name)), exists(s.path("far/"+name))
				if near == far {
					wrong = append(wrong, fmt.Sprintf("%s: near %v, far %v", name, near, far))
				}
			}
			return wrong
		},
		restore: func(s *scene) error {
			return errors.Join(s.sweep("."), s.root.RemoveAll("next"), s.moves(s.done[victim].Load()+1))
		},
	}
}

func exists(path string) bool {
	_, err := os.Lstat(path)
	return err == nil
}

// moves makes version v of the target by a move.
func (s *scene) moves(v int64) error {
	for _, name := range []string{"f", "d"} {
		from, to := "near/"+name, "far/"+name
		if !exists(s.path(from)) {
			from, to = to, from
		}
		if _, err := s.root.Move(from, to, caproot.MoveOptions{}); err != nil {
			return err
		}
	}
	if _, err := s.root.Put("next", version{v}.encode(), caproot.PutOptions{}); err != nil {
		return err
	}
	_, err := s.root.Move("next", "target", caproot.MoveOptions{Replace: true})
	if err == nil {
		s.done[victim].Store(v)
	}
	return err
}

// acrossWork moves something to another file system and back.
func acrossWork(kind string, move func(s *scene, from, to string) error) *work {
	whole := map[string]func(*scene, string) error{"file": wholeFile, "tree": wholeTree}[kind]
	return &work{
		name: "move " + kind + " across", lacks: allFeatures,
		// The stage of a file; of a tree the private directory, and a stage in it.
		litter: map[string]int{"file": 1, "tree": 2}[kind],
		prepare: func(s *scene) error {
			err := errors.Join(mount(s), os.Mkdir(s.path("near"), 0o755))
			if err != nil || kind == "tree" {
				return errors.Join(err, s.grow("near/tree"))
			}
			return os.WriteFile(s.path("near/file"), version{}.encode(), 0o644)
		},
		live: func(s *scene) error {
			s.ready()
			for n := s.done[victim].Load(); ; n++ {
				from, to := sides(n, kind)
				if err := move(s, from, to); err != nil {
					return err
				}
				s.done[victim].Store(n + 1)
			}
		},
		check: func(s *scene) (wrong []string) {
			from, to := sides(s.done[victim].Load(), kind)
			switch arrived := exists(s.path(to)); {
			case arrived:
				// It got its name whole. Of the old one there may be something left.
				if err := whole(s, to); err != nil {
					wrong = append(wrong, "new name: "+err.Error())
				}
			default:
				if err := whole(s, from); err != nil {
					wrong = append(wrong, "old name, and no new one: "+err.Error())
				}
			}
			return wrong
		},
		restore: func(s *scene) error {
			n := s.done[victim].Load()
			from, to := sides(n, kind)
			if exists(s.path(to)) {
				n++
				if err := s.root.RemoveAll(from); err != nil {
					return err
				}
				from, to = to, from
			}
			s.done[victim].Store(n + 1)
			return errors.Join(s.sweep("near", "far"), move(s, from, to))
		},
		// The private directory of a tree that did not arrive is nobody's to sweep.
		stays: func(name string) bool { return kind == "tree" && strings.Contains(name, "/.caproot-stage-") },
	}
}

// sides are the names before and after the move that follows n of them.
func sides(n int64, kind string) (from, to string) {
	names := [2]string{"near/" + kind, "far/" + kind}
	return names[n%2], names[(n+1)%2]
}

func moveAcross(s *scene, from, to string) error {
	_, err := s.root.Move(from, to, caproot.MoveOptions{CrossDevice: true, Durability: caproot.DurabilityNone})
	return err
}

func wholeFile(s *scene, name string) error {
	data, err := os.ReadFile(s.path(name))
	if err == nil {
		_, err = decode(data)
	}
	return err
}

func wholeTree(s *scene, name string) error {
	for _, entry := range grown() {
		path := s.path(name + "/" + entry)
		info, err := os.Lstat(path)
		switch {
		case err != nil:
			return err
		case info.Mode().IsRegular():
			if data, err := os.ReadFile(path); string(data) != entry {
				return fmt.Errorf("%s: %q, %v", path, data, err)
			}
		}
	}
	return nil
}

// copyThenRemove is how a move across is written without caproot: whoever kills
// it finds a part under the new name.
func copyThenRemove(s *scene, from, to string) error {
	data, err := os.ReadFile(s.path(from))
	if err != nil {
		return err
	}
	return errors.Join(inPieces(s.path(to), data), os.Remove(s.path(from)))
}

// inPieces writes as programs do that copy through a buffer.
func inPieces(path string, data []byte) error {
	f, err := os.Create(path)
	if err != nil {
		return err
	}
	defer f.Close()
	for len(data) > 0 {
		n := min(len(data), 4096)
		if _, err := f.Write(data[:n]); err != nil {
			return err
		}
		data = data[n:]
	}
	return nil
}
