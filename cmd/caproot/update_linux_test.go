package main

import (
	"os"
	"strings"
	"sync"
	"testing"
)

func TestUpdate(t *testing.T) {
	for _, kind := range []string{"sidecar", "lease"} {
		dir := t.TempDir()
		update := func(args ...string) result {
			t.Helper()
			return caprootRun(t, "", append([]string{"update", "--kind", kind, dir}, args...)...)
		}
		wants := func(content string) {
			t.Helper()
			if data, err := os.ReadFile(dir + "/f"); err != nil || string(data) != content {
				t.Errorf("%q, %v, want %q", data, err, content)
			}
		}
		if got := update("f", "--", "sh", "-c", "cat; echo one"); got.code != 0 || got.out != "" {
			t.Errorf("%+v", got)
		}
		if got := update("--json", "f", "--", "sh", "-c", "cat; echo two"); got.code != 0 || got.out != `{"op":"update","name":"f"}`+"\n" {
			t.Errorf("%+v", got)
		}
		wants("one\ntwo\n")
		for script, code := range map[string]int{"echo three; exit 7": 7, "echo three; kill -9 $$": 137} {
			if got := update("f", "--", "sh", "-c", script); got.code != code {
				t.Errorf("%q: %+v", script, got)
			}
		}
		if got := update("f", "--", "/no/such/command"); got.code != exitCannotRun {
			t.Errorf("%+v", got)
		}
		if got := update("../f", "--", "cat"); got.code != exitRefused || !strings.HasPrefix(got.err, "caproot: escape: ") {
			t.Errorf("%+v", got)
		}
		if got := update("--max-bytes", "9", "f", "--", "sh", "-c", "cat; echo three"); got.code != exitRefused || !strings.HasPrefix(got.err, "caproot: too-large: ") {
			t.Errorf("%+v", got)
		}
		if got := update("d/f", "--", "cat"); got.code != exitNo {
			t.Errorf("%+v", got)
		}
		for _, args := range [][]string{{"f"}, {"f", "--"}, {"-w", "0", "f", "--", "cat"}, {"--mode", "x", "f", "--", "cat"}} {
			if got := update(args...); got.code != exitUsage {
				t.Errorf("%v: %+v", args, got)
			}
		}
		wants("one\ntwo\n")
		// What is under way takes the lock away from others.
		if got := update("f", "--", built, "update", "--kind", kind, "-w", "0.05", dir, "f", "--", "cat"); got.code != exitNo || !strings.HasPrefix(got.err, "caproot: busy: ") {
			t.Errorf("%+v", got)
		}
		if _, err := os.Stat(dir + "/f.lock"); err == nil {
			t.Error("a record is left")
		}
	}
}

// Commands that add to one file lose nothing of each other's.
func TestUpdatesTakeTurns(t *testing.T) {
	dir := t.TempDir()
	var all sync.WaitGroup
	for _, kind := range []string{"sidecar", "lease", "sidecar", "lease"} {
		all.Go(func() {
			for range 5 {
				if got := caprootRun(t, "", "update", "-w", "60", "--kind", kind, dir, "f", "--", "sh", "-c", "cat; echo x"); got.code != 0 {
					t.Errorf("%s: %+v", kind, got)
				}
			}
		})
	}
	all.Wait()
	if data, err := os.ReadFile(dir + "/f"); err != nil || strings.Count(string(data), "x") != 20 {
		t.Errorf("%q, %v", data, err)
	}
}
