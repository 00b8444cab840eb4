package caproot

import (
	"io/fs"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/caproot/caproot/identity"
)

// seam writes down the calls that change something or decide a publication, in
// words such as "rename noreplace STAGE f", and lets a test act before one or
// answer it in the kernel's place.
type seam struct {
	system
	mu     sync.Mutex
	log    []string
	before func(event string) error // an error is the answer; nil passes the call on
}

// hook puts a seam between the root and the kernel for the rest of the test.
func hook(r *Root, before func(event string) error) *seam {
	s := &seam{system: r.sys, before: before}
	r.sys = s
	return s
}

func (s *seam) event(words ...string) error {
	for i, w := range words {
		if strings.HasPrefix(w, stagePrefix) {
			words[i] = "STAGE"
		}
	}
	event := strings.Join(words, " ")
	s.mu.Lock()
	s.log = append(s.log, event)
	s.mu.Unlock()
	if s.before == nil {
		return nil
	}
	return s.before(event)
}

// count counts the calls that begin with a text.
func (s *seam) count(prefix string) (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, event := range s.log {
		if strings.HasPrefix(event, prefix) {
			n++
		}
	}
	return n
}

// answers makes a before of fixed answers, by the beginning of the event.
func answers(fixed map[string]error) func(string) error {
	return func(event string) error {
		for prefix, err := range fixed {
			if strings.HasPrefix(event, prefix) {
				return err
			}
		}
		return nil
	}
}

// once runs act before the first event that begins with a text.
func once(prefix string, act func()) func(string) error {
	done := false
	return func(event string) error {
		if !done && strings.HasPrefix(event, prefix) {
			done = true
			act()
		}
		return nil
	}
}

func (s *seam) kind(h handle) string {
	if st, err := s.system.stat(h, "", false); err == nil && st.isDir() {
		return "dir"
	}
	return "file"
}

func (s *seam) open(d handle, n string, how openHow, perm fs.FileMode) (handle, error) {
	word := "open"
	if how&creating != 0 {
		word = "create"
	}
	if err := s.event(word, n); err != nil {
		return noHandle, err
	}
	return s.system.open(d, n, how, perm)
}

func (s *seam) openDir(d handle, n string) (handle, error) {
	if err := s.event("enter", n); err != nil {
		return noHandle, err
	}
	return s.system.openDir(d, n)
}

func (s *seam) stat(d handle, n string, full bool) (status, error) {
	if err := s.event("stat", n); err != nil {
		return status{}, err
	}
	return s.system.stat(d, n, full)
}

func (s *seam) mkdir(d handle, n string, perm fs.FileMode) error {
	if err := s.event("mkdir", n); err != nil {
		return err
	}
	return s.system.mkdir(d, n, perm)
}

func (s *seam) remove(d handle, n string, isDir bool) error {
	if err := s.event("remove", n); err != nil {
		return err
	}
	return s.system.remove(d, n, isDir)
}

func (s *seam) rename(a handle, n string, b handle, m string, how renameHow) error {
	word := [...]string{replacing: "replace", noReplace: "noreplace", exchanging: "exchange"}[how]
	if err := s.event("rename", word, n, m); err != nil {
		return err
	}
	return s.system.rename(a, n, b, m, how)
}

func (s *seam) link(a handle, n string, b handle, m string) error {
	if err := s.event("link", n, m); err != nil {
		return err
	}
	return s.system.link(a, n, b, m)
}

func (s *seam) unnamed(d handle, perm fs.FileMode) (handle, error) {
	if err := s.event("unnamed"); err != nil {
		return noHandle, err
	}
	return s.system.unnamed(d, perm)
}

func (s *seam) publish(f, d handle, n string) error {
	if err := s.event("publish", n); err != nil {
		return err
	}
	return s.system.publish(f, d, n)
}

func (s *seam) copyAccess(d handle, n string, to handle) error {
	if err := s.event("copyaccess", n); err != nil {
		return err
	}
	return s.system.copyAccess(d, n, to)
}

func (s *seam) read(h handle, p []byte) (int, error) {
	if err := s.event("read"); err != nil {
		return 0, err
	}
	return s.system.read(h, p)
}

func (s *seam) write(h handle, p []byte) (int, error) {
	return s.writing(p, func(p []byte) (int, error) { return s.system.write(h, p) })
}

func (s *seam) writeAt(h handle, p []byte, offset int64) (int, error) {
	return s.writing(p, func(p []byte) (int, error) { return s.system.writeAt(h, p, offset) })
}

func (s *seam) writing(p []byte, write func([]byte) (int, error)) (int, error) {
	if err := s.event("write"); err != nil {
		if err, short := err.(shortWrite); short {
			n, _ := write(p[:min(err.takes, len(p))])
			return n, err.err
		}
		return 0, err
	}
	return write(p)
}

// shortWrite as an answer takes some bytes before it fails, or does not fail.
type shortWrite struct {
	takes int
	err   error
}

func (shortWrite) Error() string { return "short write" }

func (s *seam) chmod(h handle, mode fs.FileMode) error {
	if err := s.event("chmod", s.kind(h)); err != nil {
		return err
	}
	return s.system.chmod(h, mode)
}

func (s *seam) chown(h handle, uid, gid int) error {
	if err := s.event("chown", s.kind(h)); err != nil {
		return err
	}
	return s.system.chown(h, uid, gid)
}

func (s *seam) chtimes(h handle, atime, mtime time.Time) error {
	if err := s.event("chtimes", s.kind(h)); err != nil {
		return err
	}
	return s.system.chtimes(h, atime, mtime)
}

func (s *seam) sync(h handle) error {
	if err := s.event("sync", s.kind(h)); err != nil {
		return err
	}
	return s.system.sync(h)
}

func (s *seam) lock(h handle) error {
	if err := s.event("lock"); err != nil {
		return err
	}
	return s.system.lock(h)
}

func (s *seam) identify(h handle) (identity.ID, error) {
	if err := s.event("identify", s.kind(h)); err != nil {
		return identity.ID{}, err
	}
	return s.system.identify(h)
}

// content reads a file below the root directory past the Root.
func content(t *testing.T, base, name string) string {
	t.Helper()
	data, err := os.ReadFile(base + "/root/" + name)
	must(t, err)
	return string(data)
}

// theirs gives f to another writer's file.
func theirs(t *testing.T, base, text string) {
	t.Helper()
	notUnderWine(t, "renames over no file that is open")
	must(t, os.WriteFile(base+"/their", []byte(text), 0o600))
	must(t, os.Rename(base+"/their", base+"/root/f"))
}

// nth runs act before the n-th event that begins with a text.
func nth(n int, prefix string, act func()) func(string) error {
	return func(event string) error {
		if strings.HasPrefix(event, prefix) {
			if n--; n == 0 {
				act()
			}
		}
		return nil
	}
}

// both runs two hooks, the second one's answer counts.
func both(first, second func(string) error) func(string) error {
	return func(event string) error { first(event); return second(event) }
}
