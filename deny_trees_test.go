package caproot

import (
	"context"
	"io/fs"
	"os"
	"slices"
	"strings"
	"testing"
)

// A walk sees a denied directory and does not enter it; entries do not give
// what is denied; a removal leaves what was moved into its tree.
func TestDenyInTrees(t *testing.T) {
	denies(t, Compat(), []string{".git", "secret.env"}, func(t *testing.T, sub *Root, base string) {
		ctx := context.Background()
		must(t, os.RemoveAll(base+"/root/out"))
		must(t, os.RemoveAll(base+"/root/abs"))
		for _, o := range []WalkOptions{{}, {Sorted: true}, {Workers: 4}, {Info: true}} {
			saw := 0
			for e, err := range sub.Walk(ctx, ".", o) {
				must(t, err)
				if strings.HasPrefix(e.Path(), ".git/") {
					t.Errorf("walked to %s", e.Path())
				}
				if e.Path() != ".git" && e.Path() != "secret.env" {
					continue
				}
				saw++
				if e.Truncated() != e.IsDir() {
					t.Errorf("%s: truncated %v", e.Path(), e.Truncated())
				}
				_, err = e.Info()
				want(t, "Info of "+e.Path(), err, ErrPolicy)
				_, err = e.Open()
				want(t, "Open of "+e.Path(), err, ErrPolicy)
			}
			if saw != 2 {
				t.Errorf("saw %d denied names", saw)
			}
		}
		names, err := sub.Glob("**")
		must(t, err)
		if slices.Contains(names, ".git/config") || !slices.Contains(names, "dir/file") {
			t.Errorf("Glob: %q", names)
		}
		var last error
		for _, err := range sub.Walk(ctx, ".", WalkOptions{FollowLinks: true, InlineErrors: true}) {
			if err != nil {
				last = err
			}
		}
		if makesLinks(t) {
			want(t, "Walk by a link", last, ErrPolicy)
		}
		must(t, os.Rename(base+"/root/.git", base+"/root/dir/moved"))
		must(t, os.Rename(base+"/root/secret.env", base+"/root/dir/harmless"))
		for _, workers := range []int{1, 4} {
			report, err := sub.RemoveTree(ctx, "dir", TreeLimits{Workers: workers, Force: true})
			want(t, "RemoveTree", err, ErrPolicy)
			if len(report.Left) != 2 {
				t.Errorf("left %v", report.Left)
			}
		}
		for _, name := range []string{"moved/config", "harmless"} {
			if data, _ := os.ReadFile(base + "/root/dir/" + name); string(data) != "denied" {
				t.Errorf("removed %s", name)
			}
		}
		for e, err := range sub.Walk(ctx, "dir", WalkOptions{}) {
			must(t, err)
			if strings.HasPrefix(e.Path(), "dir/moved/") || e.Truncated() != (e.Path() == "dir/moved") {
				t.Errorf("walked to %s, truncated %v", e.Path(), e.Truncated())
			}
		}
	})
}

// A tree that is copied has nothing of what is denied at either end, and a copy
// that the kernel makes is charged like any other.
func TestGrantAndCopies(t *testing.T) {
	denies(t, Compat(), []string{".git", "dir/later"}, func(t *testing.T, sub *Root, base string) {
		git := ".git"
		if makesLinks(t) {
			git = "x"
		}
		ctx := context.Background()
		must(t, os.RemoveAll(base+"/root/out"))
		must(t, os.RemoveAll(base+"/root/abs"))
		to, err := Open(t.TempDir(), Compat())
		must(t, err)
		defer to.Close()
		o := TreeCopyOptions{GoOn: true, Symlinks: LinksSkip}
		report, err := to.CopyTree(ctx, "copy", sub, ".", o)
		want(t, "CopyTree", err, ErrPolicy)
		if len(report.Left) != 1 || report.Left[0].Path != ".git" {
			t.Errorf("left %v", report.Left)
		}
		want(t, "copied", verbs(to)["Lstat"]("copy/.git"), fs.ErrNotExist)
		_, err = to.CopyIn(ctx, "stolen", Source{Root: sub, Name: git + "/config"}, CopyOptions{})
		want(t, "CopyIn", err, ErrPolicy)
		must(t, to.RemoveAll("copy/dir"))
		must(t, to.MkdirAll("copy/dir/later", 0o700))
		_, err = sub.CopyTree(ctx, ".", to, "copy", o)
		want(t, "CopyTree into it", err, ErrPolicy)
		want(t, "made", verbs(to)["Lstat"]("dir/later"), fs.ErrNotExist)
	})
}

// A copy that a budget has no room for costs nothing.
func TestBudgetOfCopies(t *testing.T) {
	notUnderWine(t, "does not tell that an open file was removed")
	denies(t, Compat(), []string{".git"}, func(t *testing.T, sub *Root, base string) {
		ctx := context.Background()
		for _, clone := range []CloneRule{CloneAuto, CloneNever} {
			small, err := sub.Grant(".", Grant{Policy: Compat(), Budget: &Budget{Bytes: 10, Files: 9}})
			must(t, err)
			_, err = small.CopyIn(ctx, "c", Source{Root: sub, Name: "f"}, CopyOptions{Clone: clone})
			must(t, err)
			if spent := small.Spent(); spent != (Budget{7, 1}) {
				t.Errorf("spent %+v", spent)
			}
			_, err = small.CopyIn(ctx, "d", Source{Root: sub, Name: "f"}, CopyOptions{Clone: clone})
			want(t, "CopyIn", err, ErrTooLarge)
			if spent := small.Spent(); spent != (Budget{7, 1}) {
				t.Errorf("spent %+v", spent)
			}
			must(t, small.Close())
		}
	})
}

// A removal knows in which directory it stands: what came to a denied name of it
// stays, wherever the directory is by now, as for the verbs that remove one name.
func TestDenyByNameInMovedTree(t *testing.T) {
	for _, workers := range []int{0, 1, 4} {
		denies(t, Compat(), []string{"deep/er/real/key", "deep/er/real/sub/later"}, func(t *testing.T, sub *Root, base string) {
			must(t, os.Mkdir(base+"/root/q", 0o755))
			must(t, os.Rename(base+"/root/deep/er/real", base+"/root/q/conf"))
			must(t, os.MkdirAll(base+"/root/q/conf/sub", 0o755))
			stay := []string{"q/conf/key", "q/conf/sub/later"}
			for _, name := range stay {
				must(t, os.WriteFile(base+"/root/"+name+".tmp", []byte("rotated"), 0o600))
				must(t, os.Rename(base+"/root/"+name+".tmp", base+"/root/"+name))
				want(t, "Remove", sub.Remove(name), ErrPolicy)
			}
			must(t, os.WriteFile(base+"/root/q/conf/other", nil, 0o600))
			var err error
			if workers == 0 {
				err = sub.RemoveAll("q")
			} else {
				_, err = sub.RemoveTree(context.Background(), "q", TreeLimits{Workers: workers})
			}
			want(t, "the removal", err, ErrPolicy)
			for _, name := range stay {
				holds(t, base+"/root", name, "rotated")
			}
			if _, serr := os.Lstat(base + "/root/q/conf/other"); serr == nil {
				t.Error("what is not denied was left:", err)
			}
		})
	}
}
