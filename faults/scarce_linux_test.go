package faults

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/state"
)

// scarceVerbs are what must not do harm where something is scarce: those of
// faultVerbs, and locks, state and trees.
func scarceVerbs() map[string]faultVerb {
	verbs := maps.Clone(faultVerbs)
	maps.Copy(verbs, map[string]faultVerb{
		"Put IfMatch": {func(r *caproot.Root) (identity.Receipt, error) {
			seen, err := r.Receipt("f")
			if err != nil {
				return identity.Receipt{}, err
			}
			return r.Put("f", []byte(after), caproot.PutOptions{IfMatch: &seen})
		}, map[string]string{"f": after}, false},
		"CopyTree": {func(r *caproot.Root) (identity.Receipt, error) {
			_, err := r.CopyTree(context.Background(), "copy", r, "tree", caproot.TreeCopyOptions{})
			return identity.Receipt{}, err
		}, map[string]string{"copy/": "/", "copy/x": "x", "copy/sub/": "/", "copy/sub/y": "y"}, true},
		"state.Update": {func(r *caproot.Root) (identity.Receipt, error) {
			return identity.Receipt{}, state.Update(context.Background(), r, "n.json", func(n *int) error { *n = 1; return nil }, state.Options{})
		}, map[string]string{"n.json": "1\n"}, true}, // has no receipt to tell that it was published
		"sidecar": {held(func(r *caproot.Root) (lock.Lock, error) {
			return lock.TryAcquire(context.Background(), r, "target", lock.Options{})
		}), nil, false},
		"advisory": {held(func(r *caproot.Root) (lock.Lock, error) {
			return lock.TryAdvisory(context.Background(), r, "adv", lock.AdvisoryOptions{})
		}), nil, true},
		"lease": {held(func(r *caproot.Root) (lock.Lock, error) {
			l, err := lock.AcquireLease(context.Background(), r, "target", lock.LeaseOptions{})
			if err != nil {
				return nil, err
			}
			return l, nil
		}), nil, true},
	})
	return verbs
}

func held(acquire func(*caproot.Root) (lock.Lock, error)) func(*caproot.Root) (identity.Receipt, error) {
	return func(r *caproot.Root) (identity.Receipt, error) {
		l, err := acquire(r)
		if err == nil {
			if err = l.Release(); err != nil {
				unreleased = append(unreleased, l)
			}
		}
		return identity.Receipt{}, err
	}
}

// unreleased are locks whose release failed: they are held still, and released
// when there is what it takes.
var unreleased []lock.Lock

func releaseAll(t *testing.T) {
	t.Helper()
	for _, l := range unreleased {
		must(t, l.Release())
	}
	unreleased = nil
}

// small mounts a tmpfs with options.
func small(t *testing.T, options string) string {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("mounting needs root")
	}
	dir := t.TempDir()
	must(t, syscall.Mount("small", dir, "tmpfs", 0, options))
	t.Cleanup(func() { syscall.Unmount(dir, syscall.MNT_DETACH) })
	return dir
}

// contents of a directory, as FS.Files has it.
func contents(t *testing.T, dir string) map[string]string {
	t.Helper()
	files := map[string]string{}
	must(t, filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		name := strings.TrimPrefix(path, dir+"/")
		switch {
		case err != nil || path == dir:
			return err
		case d.IsDir():
			files[name+"/"] = "/"
			return nil
		}
		data, err := os.ReadFile(path)
		files[name] = string(data)
		return err
	}))
	return files
}

// scarcity makes something scarce in a directory, and gives it back.
type scarcity struct {
	options string // of the tmpfs
	causes  []error
	begin   func(t *testing.T, dir string) (end func())
}

var scarcities = map[string]scarcity{
	"space":     {"size=256k", []error{syscall.ENOSPC}, func(t *testing.T, dir string) func() { return exhaust(t, dir, 4096) }},
	"inodes":    {"nr_inodes=40", []error{syscall.ENOSPC}, func(t *testing.T, dir string) func() { return exhaust(t, dir, 0) }},
	"read-only": {"", []error{syscall.EROFS}, readOnly},
}

// exhaust makes files of a size until there is no room.
func exhaust(t *testing.T, dir string, size int) func() {
	for i := 0; ; i++ {
		if err := os.WriteFile(fmt.Sprintf("%s/fill%d", dir, i), make([]byte, size), 0o600); err != nil {
			want(t, "filling up", err, syscall.ENOSPC)
			break
		}
	}
	return func() {
		files, err := filepath.Glob(dir + "/fill*")
		must(t, err)
		for _, f := range files {
			must(t, os.Remove(f))
		}
	}
}

func readOnly(t *testing.T, dir string) func() {
	must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT|syscall.MS_RDONLY, ""))
	return func() { must(t, syscall.Mount("", dir, "", syscall.MS_REMOUNT, "")) }
}

// case 94: no space, no inode, no permission to write: each verb does all or
// nothing, says why, leaves nothing, and works when there is room again.
func TestScarce(t *testing.T) {
	for scarce, s := range scarcities {
		t.Run(scarce, func(t *testing.T) {
			var worked, refused []string
			for name, v := range scarceVerbs() {
				base := small(t, s.options)
				dir := base + "/run"
				fill(t, dir)
				r := opened(t, dir, durable())
				end := s.begin(t, base)
				old := contents(t, dir)
				receipt, err := v.run(r)
				now := contents(t, dir)
				end()
				releaseAll(t)
				judgeScarce(t, scarce+", "+name, v, old, now, receipt, err, s.causes)
				if err != nil && receipt.Published != identity.Unpublished {
					t.Errorf("%s, %s: %v, but published", scarce, name, err)
				}
				if err == nil {
					worked = append(worked, name)
					continue
				}
				refused = append(refused, name)
				if _, err := v.run(r); err != nil && !v.steps {
					t.Errorf("%s, %s: still fails with room: %v", scarce, name, err)
				}
			}
			slices.Sort(worked)
			slices.Sort(refused)
			t.Logf("refused: %q; worked: %q", refused, worked)
		})
	}
}

func judgeScarce(t *testing.T, what string, v faultVerb, old, now map[string]string, receipt identity.Receipt, err error, causes []error) {
	t.Helper()
	for name, held := range merged(old, now) {
		wanted, may := v.names[name]
		got := now[name]
		fence := strings.HasPrefix(name, ".caproot/") || name == "adv" // stay, by their contract
		if got == held || may && got == wanted || fence {
			continue
		}
		t.Errorf("%s: %v, %s holds %q", what, err, name, got)
	}
	if err == nil {
		return
	}
	if !slices.ContainsFunc(causes, func(cause error) bool { return errors.Is(err, cause) }) {
		t.Errorf("%s: %v, want %v", what, err, causes)
	}
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
		t.Errorf("%s: %v looks like absence or presence", what, err)
	}
	if changed := !maps.Equal(old, now); changed && receipt.Published == identity.Unpublished && !v.steps {
		t.Errorf("%s: %v, but changed", what, err)
	}
}

// case 177: with k descriptors left, for each k from none on, EMFILE is itself,
// nothing is left, and no descriptor is lost. The flush of a directory that was
// found without opening it takes one more: then the receipt tells what happened.
func TestFewDescriptors(t *testing.T) {
	for name, v := range scarceVerbs() {
		worked := false
		for k := 0; k < 24 && !worked; k++ {
			dir := small(t, "")
			fill(t, dir)
			r := opened(t, dir, durable())
			_, err := r.ReadDir(".")
			must(t, err)
			old, open := contents(t, dir), descriptors(t)
			give := takeDescriptors(t, k)
			receipt, err := v.run(r)
			give()
			releaseAll(t)
			if worked = err == nil; worked {
				continue
			}
			judgeScarce(t, fmt.Sprintf("%s with %d descriptors", name, k), v, old, contents(t, dir), receipt, err, []error{syscall.EMFILE})
			if n := descriptors(t); n != open {
				t.Errorf("%s: %d descriptors, had %d", name, n, open)
			}
		}
		if !worked {
			t.Errorf("%s never worked", name)
		}
	}
}

// takeDescriptors leaves k.
func takeDescriptors(t *testing.T, k int) (give func()) {
	t.Helper()
	var limit syscall.Rlimit
	must(t, syscall.Getrlimit(syscall.RLIMIT_NOFILE, &limit))
	low := limit
	low.Cur = 256
	must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &low))
	var taken []int
	for {
		fd, err := syscall.Open("/dev/null", syscall.O_RDONLY|syscall.O_CLOEXEC, 0)
		if err != nil {
			want(t, "taking", err, syscall.EMFILE)
			break
		}
		taken = append(taken, fd)
	}
	for _, fd := range taken[len(taken)-k:] {
		syscall.Close(fd)
	}
	return func() {
		for _, fd := range taken[:len(taken)-k] {
			syscall.Close(fd)
		}
		must(t, syscall.Setrlimit(syscall.RLIMIT_NOFILE, &limit))
	}
}
