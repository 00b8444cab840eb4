package main

import (
	"context"
	"fmt"
	"os/exec"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
)

// lockShown is the JSON form of the lock of a killed holder.
type lockShown struct {
	PID int `json:"pid"` // of the holder
	// Alive is the code of the answer while it lived.
	Alive string `json:"alive"`
	// Reclaimed is from SIGKILL to the lock, in milliseconds.
	Reclaimed float64 `json:"reclaimed_ms"`
	Note      string  `json:"note,omitempty"`
}

const (
	demoTarget   = "state.json"
	holderStart  = 3 * time.Second // for a process to start and lock
	reclaimLimit = time.Second
)

// killHolder kills a process that holds a lock, and takes the lock.
func (d *demo) killHolder() error {
	locks, err := d.host.OpenRoot(demoLocks)
	if err != nil {
		return err
	}
	defer locks.Close()
	// The holder's command waits for input that does not come.
	holder := exec.Command(d.self, "lock", d.base+"/"+demoLocks+"/"+demoTarget, "--", d.self, "names", "-0")
	in, err := holder.StdinPipe()
	if err != nil {
		return err
	}
	defer in.Close()
	if err := holder.Start(); err != nil {
		return err
	}
	defer holder.Wait()
	defer holder.Process.Kill()
	shown := lockShown{PID: holder.Process.Pid}
	st, err := awaitHolder(locks)
	if err != nil {
		return err
	}
	if st.State != lock.Held {
		shown.Note = "not shown: the holder has no lock that proves it alive"
		return d.showLock(shown)
	}
	ctx, cancel := context.WithTimeout(context.Background(), reclaimLimit)
	defer cancel()
	if l, err := lock.TryAcquire(ctx, locks, demoTarget, lock.Options{}); err != nil {
		shown.Alive = lock.Code(err)
	} else if err := l.Release(); err != nil {
		return err
	}
	start := time.Now()
	if err := holder.Process.Kill(); err != nil {
		return err
	}
	l, err := lock.Acquire(ctx, locks, demoTarget, lock.Options{})
	if err != nil {
		return err
	}
	shown.Reclaimed = float64(time.Since(start).Microseconds()) / 1e3
	if err := l.Release(); err != nil {
		return err
	}
	return d.showLock(shown)
}

// awaitHolder returns when the lock is held, or will not be.
func awaitHolder(locks *caproot.Root) (st lock.Status, err error) {
	for start := time.Now(); time.Since(start) < holderStart; time.Sleep(time.Millisecond) {
		if st, err = lock.Inspect(context.Background(), locks, demoTarget, lock.Options{}); err != nil || st.State == lock.Held {
			break
		}
	}
	return st, err
}

func (d *demo) showLock(l lockShown) error {
	if l.Note == "" && l.Alive != "busy" {
		d.wrong++
	}
	if d.json {
		return d.s.writeJSON(l)
	}
	answer := l.Note
	if answer == "" {
		answer = fmt.Sprintf("while it lived: %s; after SIGKILL: ours in %.1f ms", l.Alive, l.Reclaimed)
	}
	_, err := fmt.Fprintf(d.s.out, "%-20s %s\n", "lock of another", fmt.Sprintf("process %d, ", l.PID)+answer)
	return err
}
