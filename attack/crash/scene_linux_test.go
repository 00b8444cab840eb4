package crash

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/internal/testfs"
)

// seats are who works: the victim, the bystander, the campaign itself.
const (
	victim = iota
	bystander
	campaign
	seats
)

// scene is a tree to work in and, beside it, what the workers tell.
type scene struct {
	base  string
	root  *caproot.Root
	seat  int
	lacks string // features that the victim's kernel lacks
	// done counts by seat what a worker has seen done.
	done []atomic.Int64
	// overlaps counts how often a worker found another one in its section.
	overlaps *atomic.Int64
	// limit is how long a restoration may wait.
	limit time.Duration
	held  any // what the campaign keeps open
}

func newScene(t *testing.T) *scene {
	base := t.TempDir()
	must(t, os.Mkdir(base+"/tree", 0o755))
	must(t, os.Mkdir(base+"/outside", 0o755))
	must(t, os.WriteFile(base+"/outside/f", []byte("outside"), 0o644))
	s, err := openScene(base)
	must(t, err)
	s.seat = campaign
	t.Cleanup(func() {
		s.root.Close()
		unix.Unmount(s.path("far"), unix.MNT_DETACH) // if anything is mounted there
	})
	return s
}

func openScene(base string) (*scene, error) {
	counters, err := testfs.SharedCounters(base + "/counters")
	if err != nil {
		return nil, err
	}
	root, err := caproot.Open(base+"/tree", policy())
	return &scene{base: base, root: root, done: counters[:seats], overlaps: &counters[seats], limit: 20 * time.Second}, err
}

func (s *scene) path(name string) string { return filepath.Join(s.base, "tree", name) }

// ready tells the campaign that the work begins.
func (s *scene) ready() { os.Stdout.Write([]byte(".")) }

// forever does the work again and again. A bystander leaves others some time.
func (s *scene) forever(do func() error) error {
	for s.ready(); ; {
		if err := do(); err != nil {
			return err
		}
		if s.seat == bystander {
			time.Sleep(rand.N(time.Millisecond))
		}
	}
}

// litter are the names of private files and directories, and of guards, but for
// what the campaign has.
func (s *scene) litter() (names []string) {
	own, _ := s.held.(interface{ Name() string })
	top := s.path("")
	filepath.WalkDir(top, func(path string, e fs.DirEntry, err error) error {
		if err != nil {
			return nil // a bystander removed it
		}
		base := e.Name()
		if own != nil && base == own.Name() {
			return fs.SkipDir
		}
		for _, private := range []string{".caproot-stage-", ".caproot-lock-", "scratch-", ".tmp-"} {
			if strings.HasPrefix(base, private) {
				names = append(names, strings.TrimPrefix(path, top+"/"))
				if e.IsDir() {
					return fs.SkipDir
				}
				return nil
			}
		}
		if strings.Contains(base, ".lock.reclaim") || strings.Contains(base, ".lock.evict.") {
			names = append(names, strings.TrimPrefix(path, top+"/"))
		}
		return nil
	})
	return names
}

// lasting is the litter that does not go by itself: what others have for a
// moment does.
func (s *scene) lasting(others bool) (names []string) {
	for end := time.Now().Add(time.Second); ; time.Sleep(time.Millisecond) {
		if names = s.litter(); len(names) == 0 || !others || time.Now().After(end) {
			return names
		}
	}
}

// version is what each seat has done, as it is written into files.
type version [seats]int64

// versionBytes is more than one page, and more than one write of most programs.
const versionBytes = 96 << 10

// encode repeats the version, so that a part of it is seen to be one.
func (v version) encode() []byte {
	line := fmt.Appendf(nil, "%020d %020d %020d\n", v[0], v[1], v[2])
	return bytes.Repeat(line, versionBytes/len(line))
}

var errTorn = errors.New("not a whole version")

func decode(data []byte) (v version, err error) {
	if _, err := fmt.Sscanf(string(data[:min(len(data), 70)]), "%d %d %d\n", &v[0], &v[1], &v[2]); err != nil {
		return v, fmt.Errorf("%w: %d bytes", errTorn, len(data))
	}
	if !bytes.Equal(v.encode(), data) {
		return v, fmt.Errorf("%w: %d bytes of %v", errTorn, len(data), v)
	}
	return v, nil
}

// at reads the version in a file; what does not exist is the zero version.
func (s *scene) at(name string) (v version, err error) {
	data, err := os.ReadFile(s.path(name))
	if errors.Is(err, fs.ErrNotExist) {
		return v, nil
	}
	if err != nil {
		return v, err
	}
	return decode(data)
}

// follows checks a file against what its only writer, the victim, told: its last
// version, or the one it was about to make. What is there is then the last.
func (s *scene) follows(name string, told *atomic.Int64) (wrong []string) {
	v, err := s.at(name)
	last := told.Load()
	switch {
	case err != nil:
		return []string{name + ": " + err.Error()}
	case v[victim] != last && v[victim] != last+1:
		wrong = []string{fmt.Sprintf("%s has version %d, and %d was done", name, v[victim], last)}
	}
	told.Store(v[victim])
	return wrong
}
