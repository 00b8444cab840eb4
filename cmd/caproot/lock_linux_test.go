package main

import (
	"bufio"
	"encoding/json"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// holder is a command that holds a lock until its input ends.
type holder struct {
	*exec.Cmd
	in  io.WriteCloser
	out *bufio.Reader
	err *bufio.Reader
}

// hold runs "lock flags -- …" and returns once the lock is held.
func hold(t *testing.T, flags ...string) *holder {
	t.Helper()
	h := &holder{Cmd: command(append(append([]string{"lock"}, flags...), "-c", "echo held; read end")...)}
	var err error
	h.in, err = h.StdinPipe()
	must(t, err)
	out, err := h.StdoutPipe()
	must(t, err)
	errOut, err := h.StderrPipe()
	must(t, err)
	h.out, h.err = bufio.NewReader(out), bufio.NewReader(errOut)
	must(t, h.Start())
	if line, err := h.out.ReadString('\n'); line != "held\n" {
		told, _ := io.ReadAll(h.err)
		t.Fatalf("%q, %v; %s", line, err, told)
	}
	return h
}

func TestLockExcludes(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	for _, kind := range []string{"sidecar", "advisory", "lease"} {
		h := hold(t, "--kind", kind, file)
		for code, flags := range map[int][]string{1: {"-n"}, 9: {"-n", "-E", "9"}, 8: {"-w", "0.05", "-E", "8"}} {
			args := append(append([]string{"lock", "--kind", kind}, flags...), file, "-c", "echo entered")
			if got := caprootRun(t, "", args...); got.code != code || got.out != "" || !strings.HasPrefix(got.err, "caproot: busy: ") {
				t.Errorf("%s %v: %+v", kind, flags, got)
			}
		}
		_, err := io.WriteString(h.in, "end\n")
		must(t, err)
		must(t, h.Wait())
		if got := caprootRun(t, "", "lock", "--kind", kind, "-n", file, "-c", "echo entered"); got.code != 0 || got.out != "entered\n" {
			t.Errorf("%s after the release: %+v", kind, got)
		}
	}
	if entries, _ := os.ReadDir(filepath.Dir(file)); len(entries) != 2 {
		t.Errorf("left: %v, want the advisory file and the fence", entries)
	}
}

// flock(1) and the advisory kind exclude each other; shared ones do not.
func TestLockAdvisoryIsFlock(t *testing.T) {
	flock, err := exec.LookPath("flock")
	if err != nil {
		t.Skip("no flock(1)")
	}
	file := filepath.Join(t.TempDir(), "f")
	h := hold(t, "--kind", "advisory", "-s", file)
	defer h.Wait()
	defer h.in.Close()
	if err := exec.Command(flock, "-n", file, "true").Run(); err == nil {
		t.Error("flock(1) has what a shared lock excludes")
	}
	if out, err := exec.Command(flock, "-s", "-n", file, "true").CombinedOutput(); err != nil {
		t.Errorf("flock -s: %v, %s", err, out)
	}
	if got := caprootRun(t, "", "lock", "--kind=advisory", "-s", "-n", file, "-c", "true"); got.code != 0 {
		t.Errorf("a second shared lock: %+v", got)
	}
}

func TestLockCodes(t *testing.T) {
	dir := t.TempDir()
	must(t, os.Mkdir(filepath.Join(dir, "odd.lock"), 0o755))
	for args, want := range map[string]int{
		"f -c true": 0, "f -- sh -c true": 0, "f -c :;exit${IFS}7": 7, "f -c kill${IFS}-TERM${IFS}$$": 128 + 15, "f -- no/such": exitCannotRun,
		"f": exitUsage, "f -c true -- true": exitUsage, "-s f -c true": exitUsage, "-w -1 f -c true": exitUsage, "-w NaN f -c true": exitUsage,
		"-E 256 f -c true": exitUsage, "--kind other f -c true": exitUsage, "no/f -c true": exitNoRoot,
		"--kind advisory no/f -c true": exitNoRoot, "odd -c true": exitRefused, "-n odd -c true": exitRefused, ".. -c true": exitRefused,
	} {
		cmd := command(append([]string{"lock"}, strings.Fields(args)...)...)
		cmd.Dir = dir
		if got := finish(t, cmd); got.code != want {
			t.Errorf("lock %s: %+v, want %d", args, got, want)
		}
	}
	if entries, _ := os.ReadDir(dir); len(entries) != 1 {
		t.Errorf("left: %v", entries)
	}
}

// A holder that is killed takes the command with it, or that would go on
// without the lock; its record is proved dead, and only then reclaimed.
func TestLockOfKilledHolder(t *testing.T) {
	for _, kind := range []string{"sidecar", "lease"} {
		t.Run(kind, func(t *testing.T) { lockOfKilledHolder(t, kind) })
	}
}

func lockOfKilledHolder(t *testing.T, kind string) {
	file := filepath.Join(t.TempDir(), "f")
	status := func(state string, code int) lockState {
		t.Helper()
		var st lockState
		got := caprootRun(t, "", "lock-status", "--json", file)
		must(t, json.Unmarshal([]byte(got.out), &st))
		if st.State != state || got.code != code {
			t.Errorf("status %+v, want %s", got, state)
		}
		if text := caprootRun(t, "", "lock-status", file); text.code != code || !strings.HasPrefix(text.out, state) {
			t.Errorf("status in words %+v, want %s", text, state)
		}
		return st
	}
	refused := func(code string) {
		t.Helper()
		if got := caprootRun(t, "", "lock-reclaim", "--json", file); got.code != exitNo || got.out != "" || !strings.HasPrefix(got.err, "caproot: "+code+": ") {
			t.Errorf("reclaim: %+v, want %s", got, code)
		}
	}
	status("free", exitDone)
	refused("not-exist")
	h := hold(t, "--kind", kind, file)
	var who struct{ PID int }
	if err := json.Unmarshal(status("held", exitNo).Holder, &who); err != nil || who.PID != h.Process.Pid {
		t.Errorf("holder %+v, want %d; %v", who, h.Process.Pid, err)
	}
	refused("busy")
	must(t, h.Process.Kill())
	if _, err := io.ReadAll(h.out); err != nil { // ends with the command, which has the other end
		t.Error(err)
	}
	_ = h.Wait()
	if st := status("dead", exitNo); st.Proof == "" || !st.Trusted {
		t.Errorf("dead: %+v", st)
	}
	if got := caprootRun(t, "", "lock-reclaim", "--json", file); got.code != 0 || !strings.HasPrefix(got.out, `{"op":"lock-reclaim","name":`) {
		t.Errorf("reclaim: %+v", got)
	}
	status("free", exitDone)
	// A record that proves nothing stays, whatever its age (case 114).
	must(t, os.WriteFile(file+".lock", []byte("{\"pid\":1}\n\x1b"), 0o600))
	status("unknown", exitNo)
	refused("stale")
	if _, err := os.Stat(file + ".lock"); err != nil {
		t.Error(err)
	}
}

func TestLockPassesSignalsOn(t *testing.T) {
	file := filepath.Join(t.TempDir(), "f")
	for _, sig := range []syscall.Signal{syscall.SIGTERM, syscall.SIGINT, syscall.SIGHUP} {
		h := hold(t, file)
		must(t, h.Process.Signal(sig))
		_ = h.Wait()
		if code := h.ProcessState.ExitCode(); code != 128+int(sig) {
			t.Errorf("%v: exit %d", sig, code)
		}
		if got := caprootRun(t, "", "lock-status", file); got.code != 0 {
			t.Errorf("%v: the lock was not released: %+v", sig, got)
		}
	}
}

// Somebody removes the record of a live holder: the lock is lost, and the
// command must not go on as if it were not.
func TestLockLost(t *testing.T) {
	for kind, code := range map[string]string{"sidecar": "compromised", "lease": "lease-lost"} {
		t.Run(kind, func(t *testing.T) { lockLost(t, kind, code) })
	}
}

func lockLost(t *testing.T, kind, code string) {
	for onLost, want := range map[string]int{"term": 128 + 15, "ignore": exitFailed} {
		file := filepath.Join(t.TempDir(), "f")
		h := hold(t, "--kind", kind, "--on-lost", onLost, file)
		must(t, os.Remove(file+".lock"))
		told, err := h.err.ReadString('\n')
		if err != nil || !strings.HasPrefix(told, "caproot: "+code+": ") {
			t.Errorf("%s: %q, %v", onLost, told, err)
		}
		if onLost == "ignore" {
			_, err := io.WriteString(h.in, "end\n")
			must(t, err)
		}
		rest, _ := io.ReadAll(h.err)
		_ = h.Wait()
		if code := h.ProcessState.ExitCode(); code != want || len(rest) > 0 {
			t.Errorf("%s: exit %d, want %d; then told %q", onLost, code, want, rest)
		}
	}
}

// Where locks prove nothing the status of a record says so, and a dead holder's is
// not reclaimed.
func TestLockStatusWithoutProof(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("ramfs", dir, "ramfs", 0, ""); err != nil {
		t.Skipf("cannot mount ramfs: %v", err)
	}
	defer func() { must(t, syscall.Unmount(dir, syscall.MNT_DETACH)) }()
	for where, trusted := range map[string]bool{dir: false, t.TempDir(): true} {
		file := filepath.Join(where, "f")
		status := func(state string) {
			t.Helper()
			var st lockState
			must(t, json.Unmarshal([]byte(caprootRun(t, "", "lock-status", "--json", file).out), &st))
			if st.State != state || st.Trusted != (trusted && state != "free") {
				t.Errorf("%+v, want %s", st, state)
			}
			text := caprootRun(t, "", "lock-status", file).out
			if told := strings.Contains(text, "prove nothing"); told == (trusted || state == "free") {
				t.Errorf("in words: %s", text)
			}
		}
		status("free")
		h := hold(t, file)
		must(t, h.Process.Kill())
		_ = h.Wait()
		if trusted {
			status("dead")
			continue
		}
		status("unknown")
		if got := caprootRun(t, "", "lock-reclaim", file); got.code != exitNo {
			t.Errorf("reclaim: %+v", got)
		}
	}
}
