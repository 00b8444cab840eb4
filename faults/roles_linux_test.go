package faults

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/state"
)

// roleVariable names what a process is that a test started, and where.
const (
	roleVariable = "CAPROOT_FAULTS_ROLE"
	dirVariable  = "CAPROOT_FAULTS_DIR"
)

// rounds of each of counters processes.
const (
	counters = 4
	rounds   = 12
)

var roles = map[string]func(*caproot.Root) error{
	"hold": func(r *caproot.Root) error {
		if _, err := lock.Acquire(context.Background(), r, "target", lock.Options{}); err != nil {
			return err
		}
		fmt.Println("held")
		select {}
	},
	"count": func(r *caproot.Root) error {
		for range rounds {
			err := lock.With(context.Background(), r, "n", lock.Options{}, func(context.Context) error {
				data, err := r.ReadFile("n")
				if err != nil {
					return err
				}
				n, err := strconv.Atoi(string(data))
				if err != nil {
					return err
				}
				return r.WriteFile("n", []byte(strconv.Itoa(n+1)), 0o600)
			})
			if err != nil {
				return err
			}
		}
		return nil
	},
	"update": func(r *caproot.Root) error {
		for range rounds {
			err := state.Update(context.Background(), r, "n.json", func(n *int) error { *n++; return nil }, state.Options{})
			if err != nil {
				return err
			}
		}
		return nil
	},
	"advisory": func(r *caproot.Root) error {
		_, err := lock.TryAdvisory(context.Background(), r, "adv", lock.AdvisoryOptions{})
		fmt.Println(lock.Code(err))
		return nil
	},
}

// play is the main function of a process with a role.
func play(role string) int {
	p := caproot.Workspace()
	p.Durability = caproot.DurabilityNone
	r, err := caproot.Open(os.Getenv(dirVariable), p)
	if err == nil {
		err = roles[role](r)
	}
	if err != nil {
		fmt.Println(err)
		return 1
	}
	return 0
}

func actor(t *testing.T, role, dir string) *exec.Cmd {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "/proc/self/exe")
	cmd.Env = append(os.Environ(), roleVariable+"="+role, dirVariable+"="+dir)
	return cmd
}

// actors runs processes of one role to their end.
func actors(t *testing.T, n int, role, dir string) {
	t.Helper()
	var running sync.WaitGroup
	for range n {
		cmd := actor(t, role, dir)
		running.Go(func() {
			if out, err := cmd.CombinedOutput(); err != nil {
				t.Errorf("%s: %v: %s", role, err, strings.TrimSpace(string(out)))
			}
		})
	}
	running.Wait()
}
