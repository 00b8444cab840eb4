package lock

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
)

// What has the name of the queue and is no queue is an error at once, as it is
// for a record.
func TestNotAQueue(t *testing.T) {
	for what, plant := range map[string]func(path string) error{
		"directory":     func(path string) error { return os.Mkdir(path, 0o700) },
		"FIFO":          func(path string) error { return unix.Mkfifo(path, 0o600) },
		"link":          func(path string) error { return os.Symlink("missing", path) },
		"link outside":  func(path string) error { return os.Symlink("../outside", path) },
		"torn counter":  func(path string) error { return os.WriteFile(path, []byte("abc"), 0o600) },
		"great counter": func(path string) error { return os.WriteFile(path, []byte("\x7f\xff\xff\xff\xff\xff\xff\xff"), 0o600) },
		"two names": func(path string) error {
			return errors.Join(os.WriteFile(path, nil, 0o600), os.Link(path, path+".second"))
		},
	} {
		t.Run(what, func(t *testing.T) {
			base := t.TempDir()
			dir := base + "/root"
			must(t, os.Mkdir(dir, 0o755))
			must(t, plant(dir+"/target.lock.queue"))
			before := names(t, dir)
			_, err := NewManager(t.Name()).Acquire(deadline(t), openRoot(t, dir), "target", Options{Fair: true})
			want(t, "acquire", err, ErrRecord)
			wantNames(t, dir, before...)
			wantNames(t, base, "root")
		})
	}
}

// mountFolding is a directory that takes names which differ by case for one.
func mountFolding(t *testing.T) string {
	dir := t.TempDir()
	if err := unix.Mount("tmpfs", dir, "tmpfs", 0, "casefold"); err != nil {
		t.Skipf("cannot mount tmpfs with casefold: %v", err)
	}
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	folding := dir + "/folding"
	must(t, os.Mkdir(folding, 0o755))
	f, err := os.Open(folding)
	must(t, err)
	defer f.Close()
	const casefold = 0x40000000 // FS_CASEFOLD_FL
	must(t, unix.IoctlSetPointerInt(int(f.Fd()), unix.FS_IOC_SETFLAGS, casefold))
	return folding
}

// Rights, denials and the host's veto of the Root that was passed reach records
// and guards. A refusal comes back as itself, and takes no lock away.
func TestThroughGrant(t *testing.T) {
	dir := t.TempDir()
	r, m, ctx := openRoot(t, dir), NewManager(t.Name()), deadline(t)
	grant := func(g caproot.Grant) *caproot.Root {
		g.Policy = caproot.Workspace()
		sub, err := r.Grant(".", g)
		must(t, err)
		t.Cleanup(func() { sub.Close() })
		return sub
	}
	for _, name := range []string{"target.lock", "target.lock.reclaim"} {
		_, err := m.Acquire(ctx, grant(caproot.Grant{Deny: []string{name}}), "target", Options{})
		want(t, name+" denied", err, caproot.ErrPolicy)
	}
	veto := errors.New("veto")
	forbidden := caproot.StepPublish
	sub := grant(caproot.Grant{Before: func(m caproot.Mutation) error {
		// A record with a stage of its own is renamed.
		publishes := forbidden == caproot.StepPublish && m.Step == caproot.StepRename
		if m.Step == forbidden || publishes {
			return errors.Join(veto, fs.ErrNotExist)
		}
		return nil
	}})
	_, err := m.Acquire(ctx, sub, "target", Options{})
	want(t, "publication", err, veto)
	wantNames(t, dir)

	forbidden = caproot.StepRemove
	l, err := m.Acquire(ctx, sub, "target", Options{})
	must(t, err)
	err = l.Release()
	want(t, "removal", err, veto)
	if errors.Is(err, fs.ErrNotExist) || errors.Is(err, ErrCompromised) {
		t.Errorf("a refusal looks like absence: %v", err)
	}
	must(t, l.Verify(ctx))
	_, err = m.TryAcquire(ctx, r, "target", Options{})
	want(t, "while it is not released", err, ErrBusy)
	forbidden = ""
	must(t, l.Release())

	l, err = m.Acquire(ctx, sub, "target", Options{})
	must(t, err)
	sub.Revoke()
	want(t, "release through a revoked root", l.Release(), caproot.ErrRevoked)
	wantNames(t, dir, "target.lock")
	m.Reset()
	must(t, m.With(ctx, r, "target", Options{}, func(context.Context) error { return nil }))
	wantNames(t, dir)
}
