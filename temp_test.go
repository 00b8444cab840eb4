package caproot

import (
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"syscall"
	"testing"
)

func TestCreateTemp(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, c := range []struct{ dir, pattern, name string }{
			{"", "", `^[A-Z2-7]{26}$`},
			{"", "a*.txt", `^a[A-Z2-7]{26}\.txt$`},
			{"", "a$b*c", `^a\$b[A-Z2-7]{26}c$`},
			{"dir", "x-", `^dir/x-[A-Z2-7]{26}$`},
			{linked(t), "*", `^(in|dir)/[A-Z2-7]{26}$`},
		} {
			f, name, err := r.CreateTemp(c.dir, c.pattern)
			must(t, err)
			_, err = f.WriteString("x")
			must(t, err)
			must(t, f.Close())
			if !regexp.MustCompile(c.name).MatchString(name) || content(t, base, name) != "x" {
				t.Errorf("%q in %q gave %q", c.pattern, c.dir, name)
			}
			wantMode(t, base, name, 0o600)
			sub, err := r.MkdirTemp(c.dir, c.pattern)
			must(t, err)
			if !regexp.MustCompile(c.name).MatchString(sub) || sub == name {
				t.Errorf("%q in %q gave %q", c.pattern, c.dir, sub)
			}
			wantMode(t, base, sub, 0o700)
		}
		for _, c := range []struct {
			dir, pattern string
			cause        error
		}{{"", "a/b", ErrName}, {"", `a\b`, ErrName}, {"", "../*", ErrName}, {"out", "*", ErrEscape}, {"..", "*", ErrEscape},
			{"/tmp", "*", ErrEscape}, {"no", "*", fs.ErrNotExist}, {"f", "*", syscall.ENOTDIR}, {"", "a\x00*", ErrName}} {
			if len(withoutLinks(t, []string{c.dir})) == 0 {
				continue
			}
			f, _, err := r.CreateTemp(c.dir, c.pattern)
			want(t, "CreateTemp "+c.dir+" "+c.pattern, err, c.cause)
			if f != nil {
				t.Error("a file comes with the error")
			}
			_, err = r.MkdirTemp(c.dir, c.pattern)
			want(t, "MkdirTemp "+c.dir+" "+c.pattern, err, c.cause)
		}
	})
}

// What only looks like a stage stays.
func TestSweepLeavesOthers(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		root := base + "/root/"
		symlink(t, "../outside/secret", root+stagePrefix+strings.Repeat("L", 26))
		must(t, os.Mkdir(root+stagePrefix+strings.Repeat("D", 26), 0o700))
		mkfifo(t, root+stagePrefix+strings.Repeat("F", 26))
		must(t, os.WriteFile(root+markedPrefix+"1-none-"+strings.Repeat("O", 26), nil, 0o600))
		must(t, os.WriteFile(root+markedPrefix+"1-1.2.3.4-"+strings.Repeat("O", 26), nil, 0o600))
		for name := range strings.FieldsSeq(notStages) {
			must(t, os.WriteFile(root+name, nil, 0o600))
		}
		live, err := r.Stage("new", PutOptions{})
		must(t, err)
		hook(r, answers(map[string]error{"unnamed": errNotHere}))
		named, err := r.Stage("new", PutOptions{})
		must(t, err)
		before, err := filepath.Glob(root + stagePrefix + "*")
		must(t, err)
		must(t, os.WriteFile(root+deadStage, nil, 0o600))
		n, err := r.Sweep(".")
		must(t, err)
		after, err := filepath.Glob(root + stagePrefix + "*")
		must(t, err)
		if n != 1 || strings.Join(after, " ") != strings.Join(before, " ") || len(before) != 5+len(strings.Fields(notStages)) {
			t.Errorf("swept %d: %q, before %q", n, after, before)
		}
		must(t, live.Abort())
		must(t, named.Abort())
		for _, name := range []string{"out", "..", "f", "no"} {
			if _, err := r.Sweep(name); err == nil {
				t.Errorf("swept %s", name)
			}
		}
	})
}

// A stage that a sweep takes away before it is locked is made anew.
func TestSweepMeetsFreshStage(t *testing.T) {
	notUnderWine(t, "removes a file with its last handle")
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		sweeps := 0
		s := hook(r, nil)
		s.before = both(nth(1, "lock", func() {
			must(t, os.Remove(stageIn(t, base)))
			sweeps++
		}), answers(map[string]error{"unnamed": errNotHere}))
		_, err := r.Put("new", []byte("x"), PutOptions{})
		must(t, err)
		if sweeps != 1 || content(t, base, "new") != "x" {
			t.Errorf("%d sweeps", sweeps)
		}
		noStage(t, base)
		// For ever is an error, and not of absence.
		s.before = func(event string) error {
			if event == "lock" {
				return os.Remove(stageIn(t, base))
			}
			return answers(map[string]error{"unnamed": errNotHere})(event)
		}
		_, err = r.Put("newer", nil, PutOptions{})
		want(t, "Put", err, ErrUnstable)
	})
}
