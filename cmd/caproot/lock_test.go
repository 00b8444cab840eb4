package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// reader is the environment variable that makes the test binary a command to be
// run under a lock: it says that it has begun and reads its input to the end.
const reader = "CAPROOT_TEST_READER"

func readToEnd() {
	os.Stdout.WriteString("held\n")
	io.Copy(io.Discard, os.Stdin)
}

// holdHere is hold for systems without sh.
func holdHere(t *testing.T, flags ...string) (end func(), pid int) {
	t.Helper()
	self, err := os.Executable()
	must(t, err)
	cmd := command(append(append([]string{"lock"}, flags...), "--", self)...)
	cmd.Env = append(os.Environ(), reader+"=1")
	in, err := cmd.StdinPipe()
	must(t, err)
	out, err := cmd.StdoutPipe()
	must(t, err)
	var told strings.Builder
	cmd.Stderr = &told
	must(t, cmd.Start())
	if line, err := bufio.NewReader(out).ReadString('\n'); line != "held\n" {
		t.Fatalf("%q, %v; %s", line, err, told.String())
	}
	t.Cleanup(func() { cmd.Process.Kill() })
	return func() {
		in.Close()
		if err := cmd.Wait(); err != nil || told.Len() > 0 {
			t.Errorf("%v: %v, %s", cmd.Args, err, told.String())
		}
	}, cmd.Process.Pid
}

// The command's locks on every system: one at a time, and free at the end.
func TestLockEverywhere(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	for _, kind := range []string{"sidecar", "advisory", "lease"} {
		t.Run(kind, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "f")
			enter := func() result {
				cmd := command("lock", "--kind", kind, "-n", file, "--", self)
				cmd.Env = append(os.Environ(), reader+"=1")
				return finish(t, cmd)
			}
			end, pid := holdHere(t, "--kind", kind, file)
			if got := enter(); got.code != 1 || got.out != "" || !strings.HasPrefix(got.err, "caproot: busy: ") {
				t.Errorf("beside a holder: %+v", got)
			}
			if kind != "advisory" {
				var st lockState
				got := caprootRun(t, "", "lock-status", "--json", file)
				must(t, json.Unmarshal([]byte(got.out), &st))
				var who struct{ PID int }
				if err := json.Unmarshal(st.Holder, &who); st.State != "held" || err != nil || who.PID != pid {
					t.Errorf("status %s, want held by %d; %v", got.out, pid, err)
				}
			}
			end()
			if got := enter(); got.code != 0 || got.out != "held\n" {
				t.Errorf("after the release: %+v", got)
			}
		})
	}
}

// A killed holder's record is proved dead, and who waits reclaims it. What the
// holder ran lives on where nothing ends it, and is not what holds the lock.
func TestLockOfKilledHolderEverywhere(t *testing.T) {
	self, err := os.Executable()
	must(t, err)
	file := filepath.Join(t.TempDir(), "f")
	_, pid := holdHere(t, file)
	holder, err := os.FindProcess(pid)
	must(t, err)
	must(t, holder.Kill())
	_, _ = holder.Wait()
	if got := caprootRun(t, "", "lock-status", file); got.code != exitNo || !strings.HasPrefix(got.out, "dead") {
		t.Errorf("status: %+v, want dead", got)
	}
	cmd := command("lock", "-w", "30", file, "--", self)
	cmd.Env = append(os.Environ(), reader+"=1")
	if got := finish(t, cmd); got.code != 0 || got.out != "held\n" {
		t.Errorf("after a killed holder: %+v", got)
	}
	if got := caprootRun(t, "", "lock-status", file); got.code != exitDone {
		t.Errorf("status: %+v, want free", got)
	}
}
