package interop

import (
	"os"
	"regexp"
	"testing"
	"time"
)

var token = regexp.MustCompile(`\n\t{8}[ \t]{128}\n$`)

// The facts about fs-safe that the Go side is built on. A new version of it
// that fails here needs the protocol to be looked at again.
func TestNodeKeepsItsProtocol(t *testing.T) {
	nodePeer(t)
	for _, kind := range []string{"raw", "root", "sync"} {
		t.Run(kind, func(t *testing.T) {
			node := startNode(t, kind)
			t.Run("record", func(t *testing.T) { nodeRecord(t, node) })
			t.Run("staleness", func(t *testing.T) { nodeStaleness(t, node) })
			t.Run("guard is waited for", func(t *testing.T) { nodeWaitsForGuard(t, node) })
			t.Run("links", func(t *testing.T) { nodeLinks(t, node) })
		})
	}
}

func nodeRecord(t *testing.T, node *peer) {
	dir := t.TempDir()
	h := node.hold(command{Target: dir + "/t", Payload: map[string]any{"who": "node"}})
	raw, err := os.ReadFile(dir + "/t.lock")
	must(t, err)
	if !token.Match(raw) || string(token.ReplaceAll(raw, nil)) != "{\n  \"who\": \"node\"\n}" {
		t.Errorf("record %q", raw)
	}
	if fi, err := os.Lstat(dir + "/t.lock"); err != nil || fi.Mode() != 0o600 {
		t.Errorf("mode %v %v", fi.Mode(), err)
	}
	node.release(h)
	if left := entries(t, dir); left != nil {
		t.Errorf("left over: %v", left)
	}
}

// A valid createdAt decides, else the time of modification.
func nodeStaleness(t *testing.T, node *peer) {
	now, old := time.Now(), time.Now().Add(-time.Hour)
	for _, c := range []struct {
		raw   string
		mtime time.Time
		code  string
	}{
		{`{"createdAt":"1970-01-01T00:00:00.000Z"}`, now, "file_lock_stale"},
		{`{"createdAt":"2999-01-01T00:00:00.000Z"}`, old, "file_lock_timeout"},
		{`{"acquired":"1970-01-01T00:00:00.000Z"}`, now, "file_lock_timeout"},
		{`{"acquired":"2999-01-01T00:00:00.000Z"}`, old, "file_lock_stale"},
		{``, now, "file_lock_timeout"},
		{``, old, "file_lock_stale"},
	} {
		dir := t.TempDir()
		must(t, os.WriteFile(dir+"/t.lock", []byte(c.raw), 0o600))
		must(t, os.Chtimes(dir+"/t.lock", c.mtime, c.mtime))
		a := node.do(command{Op: "acquire", Target: dir + "/t", TimeoutMs: within(50)})
		if a.Code != c.code {
			t.Errorf("%q of %v: %s %s, want %s", c.raw, c.mtime, a.Code, a.Message, c.code)
		}
		if raw, err := os.ReadFile(dir + "/t.lock"); err != nil || string(raw) != c.raw {
			t.Errorf("the record changed: %q %v", raw, err)
		}
	}
}

func nodeWaitsForGuard(t *testing.T, node *peer) {
	for form, make := range map[string]func(name string) error{
		"directory": func(name string) error { return os.Mkdir(name, 0o700) },
		"file":      func(name string) error { return os.WriteFile(name, nil, 0o600) },
	} {
		dir := t.TempDir()
		must(t, make(dir+"/t.lock.reclaim"))
		if a := node.do(command{Op: "acquire", Target: dir + "/t", TimeoutMs: within(50)}); a.Code != "file_lock_timeout" {
			t.Errorf("%s: %v", form, a)
		}
		if left := entries(t, dir); len(left) != 1 {
			t.Errorf("%s: %v", form, left)
		}
	}
}

// A record with two names is an alias for a Root of fs-safe: a record must
// never be published by link and unlink of a temporary name.
func nodeLinks(t *testing.T, node *peer) {
	dir := t.TempDir()
	must(t, os.WriteFile(dir+"/t.lock", []byte("{}"), 0o600))
	must(t, os.Link(dir+"/t.lock", dir+"/other"))
	wanted := map[string]string{"raw": "file_lock_timeout", "root": "path-alias", "sync": "hardlink"}[node.kind]
	if a := node.do(command{Op: "acquire", Target: dir + "/t", TimeoutMs: within(50)}); a.Code != wanted {
		t.Errorf("two names: %v, want %s", a, wanted)
	}
	must(t, os.Symlink("nowhere", dir+"/u.lock"))
	if a := node.do(command{Op: "acquire", Target: dir + "/u", TimeoutMs: within(50)}); a.Code != "not-file" && a.Code != "symlink" {
		t.Errorf("symbolic link: %v", a)
	}
}

// The guard is taken before the caller is asked, and stays when its owner dies.
func TestNodeDiesInItsGuard(t *testing.T) {
	nodePeer(t)
	for _, kind := range []string{"raw", "root"} {
		t.Run(kind, func(t *testing.T) {
			node, dir := startNode(t, kind), t.TempDir()
			stale(t, dir+"/t.lock")
			id := node.begin(command{Op: "acquire", Target: dir + "/t", Recover: "ask"})
			if a := node.next(id); a.Event != "stale" {
				t.Fatalf("asked for %v", a)
			}
			fi, err := os.Lstat(dir + "/t.lock.reclaim")
			must(t, err)
			if fi.IsDir() != (kind == "raw") {
				t.Errorf("the guard is %v", fi.Mode())
			}
			node.kill()
			if left := entries(t, dir); len(left) != 2 {
				t.Errorf("left: %v", left)
			}
		})
	}
}

// stale plants a record as a process without a witness leaves it.
func stale(t *testing.T, name string) {
	t.Helper()
	must(t, os.WriteFile(name, []byte(`{"createdAt":"1970-01-01T00:00:00.000Z"}`), 0o600))
}

func within(ms float64) *float64 { return &ms }
