package main

import (
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"time"
)

const (
	mortals  = 8
	killings = 200
)

// recovery measures from the SIGKILL of a holder to the next process having
// the lock, with all others waiting for it.
func recovery(dir, kind string) (times []time.Duration, err error) {
	target := filepath.Join(dir, "recovered")
	if err := os.WriteFile(target, []byte("0"), 0o600); err != nil {
		return nil, err
	}
	line := make(chan holder, mortals+killings)
	var all []*holder
	defer func() {
		for _, h := range all {
			h.process.Process.Kill()
			h.process.Wait()
		}
	}()
	for range mortals {
		h, err := startHolder(kind, target, line)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
	}
	current := <-line
	for range killings {
		h, err := startHolder(kind, target, line)
		if err != nil {
			return nil, err
		}
		all = append(all, h)
		time.Sleep(20 * time.Millisecond) // the new one gets in line
		died := monotonic()
		current.process.Process.Kill()
		current = <-line
		times = append(times, time.Duration(current.since-died))
	}
	return times, nil
}

// holder is a process that says when it has the lock, and keeps it.
type holder struct {
	process *exec.Cmd
	since   int64
}

// startHolder gives the process a pipe to read from, which ends, and the
// process with it, when this one does.
func startHolder(kind, target string, line chan<- holder) (*holder, error) {
	h := &holder{process: node("").command("hold", kind, target)}
	if _, err := h.process.StdinPipe(); err != nil {
		return nil, err
	}
	output, err := h.process.StdoutPipe()
	if err != nil {
		return nil, err
	}
	if err := h.process.Start(); err != nil {
		return nil, err
	}
	go func() {
		if _, err := fmt.Fscan(output, &h.since); err == nil {
			line <- *h
		}
	}()
	return h, nil
}

// holdForEver is the holder's own part.
func holdForEver(acquire take) error {
	if _, err := acquire(); err != nil {
		return err
	}
	fmt.Println(monotonic())
	_, err := io.Copy(io.Discard, os.Stdin)
	return err
}

func printRecovery(kinds []string, results map[string][]time.Duration) {
	for _, kind := range kinds {
		t := results[kind]
		fmt.Printf("recovery after SIGKILL of the holder, %d processes, %s: p50 %v, p99 %v\n",
			mortals, kind, quantile(t, 0.50), quantile(t, 0.99))
	}
}
