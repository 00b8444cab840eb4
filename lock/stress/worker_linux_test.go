package stress

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/internal/testfs"
	"github.com/caproot/caproot/lock"
)

// TestMain lets the test binary be a process of TestStress.
func TestMain(m *testing.M) {
	number := os.Getenv(workerEnv)
	if number == "" {
		os.Exit(m.Run())
	}
	if err := work(number, os.Getenv(dirEnv)); err != nil {
		fmt.Fprintln(os.Stderr, "worker", number, "process", os.Getpid(), err)
		os.Exit(1)
	}
}

// work is two goroutines that want the lock, for the queue inside a process.
// Every second worker cannot make a file without a name.
func work(number, dir string) error {
	n, err := strconv.Atoi(number)
	if err != nil {
		return err
	}
	if n%2 == 1 {
		if err := testfs.Without("tmpfile"); err != nil {
			return err
		}
	}
	w, err := openWorker(dir)
	if err != nil {
		return err
	}
	os.Stdout.Write([]byte("."))
	failed := make(chan error, 2)
	for range cap(failed) {
		go func() { failed <- w.run() }()
	}
	return errors.Join(<-failed, <-failed)
}

type worker struct {
	root   *caproot.Root
	board  *board
	log    eventLog
	count  *os.File
	oracle int
}

func openWorker(dir string) (w *worker, err error) {
	w = new(worker)
	if w.root, err = caproot.Open(dir, caproot.Workspace()); err != nil {
		return nil, err
	}
	if w.board, err = openBoard(dir + "/board"); err != nil {
		return nil, err
	}
	if w.log, err = openLog(dir); err != nil {
		return nil, err
	}
	if w.count, err = os.OpenFile(dir+"/count", os.O_RDWR, 0); err != nil {
		return nil, err
	}
	f, err := os.OpenFile(dir+"/oracle", os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	// The kernel closes the descriptors of a dying process from the highest down
	// (task work is last in, first out, since Linux 4.3), so the oracle is free
	// before the witness is.
	w.oracle, err = unix.FcntlInt(f.Fd(), unix.F_DUPFD_CLOEXEC, 900)
	return w, err
}

func (w *worker) run() error {
	for w.board.stop.Load() == 0 {
		l, err := lock.Acquire(context.Background(), w.root, "t", lock.Options{})
		if err != nil {
			return err
		}
		if err := errors.Join(w.section(), l.Release()); err != nil {
			return err
		}
		time.Sleep(rand.N(200 * time.Microsecond))
	}
	return nil
}

func (w *worker) section() error {
	if err := unix.Flock(w.oracle, unix.LOCK_EX|unix.LOCK_NB); err != nil {
		w.log.add("oracle", os.Getpid(), 0)
		return errors.Join(errors.New("two in the section"), err)
	}
	defer unix.Flock(w.oracle, unix.LOCK_UN)
	w.board.inside.Store(int64(os.Getpid()))
	defer w.board.inside.Store(0)
	var cell [8]byte
	if _, err := w.count.ReadAt(cell[:], 0); err != nil {
		return err
	}
	value := binary.LittleEndian.Uint64(cell[:])
	if err := w.log.add("begin", os.Getpid(), value); err != nil {
		return err
	}
	time.Sleep(rand.N(300 * time.Microsecond))
	binary.LittleEndian.PutUint64(cell[:], value+1)
	if _, err := w.count.WriteAt(cell[:], 0); err != nil {
		return err
	}
	return w.log.add("end", os.Getpid(), value+1)
}
