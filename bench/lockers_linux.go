package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"os"
	"path/filepath"
	"time"

	"github.com/gofrs/flock"
	"github.com/nightlyone/lockfile"
	"github.com/rogpeppe/go-internal/lockedfile"
	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// take waits for a lock and returns how to give it back.
type take func() (give func() error, err error)

// goKinds are the locks in Go by name; each guards the file target.
var goKinds = map[string]func(target string) (take, error){
	"caproot":                            sidecar(lock.Options{}),
	"caproot kept":                       sidecar(lock.Options{KeepRecord: true}),
	"caproot fair":                       sidecar(lock.Options{Fair: true}),
	"caproot advisory":                   advisory,
	"caproot advisory, opened each time": advisoryOpened,
	"retained flock":                     retainedFlock,
	"O_EXCL sidecar":                     exclusiveSidecar,
	"gofrs/flock":                        gofrsFlock,
	"lockedfile":                         lockedFile,
	"nightlyone":                         nightlyone,
}

func sidecar(o lock.Options) func(target string) (take, error) {
	return func(target string) (take, error) {
		r, err := caproot.Open(filepath.Dir(target), caproot.Workspace())
		if err != nil {
			return nil, err
		}
		name := filepath.Base(target)
		return func() (func() error, error) {
			l, err := lock.Acquire(context.Background(), r, name, o)
			if err != nil {
				return nil, err
			}
			return l.Release, nil
		}, nil
	}
}

// advisory keeps the lock file open.
func advisory(target string) (take, error) {
	r, err := caproot.Open(filepath.Dir(target), caproot.Workspace())
	if err != nil {
		return nil, err
	}
	f, err := lock.OpenAdvisory(r, filepath.Base(target)+".advisory")
	if err != nil {
		return nil, err
	}
	return func() (func() error, error) {
		l, err := f.Acquire(context.Background(), lock.AdvisoryOptions{})
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}, nil
}

// advisoryOpened opens it for each lock, as gofrs/flock and lockedfile do.
func advisoryOpened(target string) (take, error) {
	r, err := caproot.Open(filepath.Dir(target), caproot.Workspace())
	if err != nil {
		return nil, err
	}
	name := filepath.Base(target) + ".advisory"
	return func() (func() error, error) {
		l, err := lock.AcquireAdvisory(context.Background(), r, name, lock.AdvisoryOptions{})
		if err != nil {
			return nil, err
		}
		return l.Release, nil
	}, nil
}

// retainedFlock is the floor: two system calls on a descriptor kept open.
func retainedFlock(target string) (take, error) {
	fd, err := unix.Open(target+".flock", unix.O_RDWR|unix.O_CREAT|unix.O_CLOEXEC, 0o600)
	if err != nil {
		return nil, err
	}
	give := func() error { return unix.Flock(fd, unix.LOCK_UN) }
	return func() (func() error, error) {
		for {
			err := unix.Flock(fd, unix.LOCK_EX)
			if err != unix.EINTR {
				return give, err
			}
		}
	}, nil
}

// exclusiveSidecar is the plainest sidecar: O_EXCL, a line, and a poll.
func exclusiveSidecar(target string) (take, error) {
	name := target + ".excl"
	line := fmt.Appendf(nil, "{\"pid\": %d}\n", os.Getpid())
	give := func() error { return os.Remove(name) }
	return func() (func() error, error) {
		for {
			f, err := os.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
			if errors.Is(err, fs.ErrExist) {
				poll()
				continue
			}
			if err != nil {
				return nil, err
			}
			_, err = f.Write(line)
			return give, errors.Join(err, f.Close())
		}
	}, nil
}

// poll waits as pollers do, 5 to 25 ms.
func poll() { time.Sleep(5*time.Millisecond + rand.N(20*time.Millisecond)) }

func gofrsFlock(target string) (take, error) {
	l := flock.New(target + ".gofrs")
	return func() (func() error, error) { return l.Unlock, l.Lock() }, nil
}

func lockedFile(target string) (take, error) {
	m := lockedfile.MutexAt(target + ".locked")
	return func() (func() error, error) {
		unlock, err := m.Lock()
		return func() error { unlock(); return nil }, err
	}, nil
}

func nightlyone(target string) (take, error) {
	l, err := lockfile.New(target + ".nightly")
	return func() (func() error, error) {
		for {
			err := l.TryLock()
			var temporary interface{ Temporary() bool }
			// It may find the lock gone between two steps (nightlyone/lockfile#34).
			if errors.As(err, &temporary) && temporary.Temporary() || errors.Is(err, fs.ErrNotExist) {
				poll()
				continue
			}
			return l.Unlock, err
		}
	}, err
}
