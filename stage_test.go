package caproot

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"
	"sync"
	"syscall"
	"testing"

	"github.com/caproot/caproot/identity"
)

func TestStageCommit(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for _, name := range []string{"f", "new", linked(t) + "/deep"} {
			s, err := r.Stage(name, PutOptions{Digest: true, Ancestry: true, Mode: 0o640})
			must(t, err)
			for _, part := range []string{"one ", "", "two"} {
				n, err := io.WriteString(s, part)
				must(t, err)
				if n != len(part) {
					t.Errorf("wrote %d of %q", n, part)
				}
			}
			if _, err := os.Lstat(base + "/root/new"); name == "new" && err == nil {
				t.Error("the name is there before Commit")
			}
			receipt, err := s.Commit()
			must(t, err)
			again, err := s.Commit()
			must(t, err)
			if !slices.Equal([]any{receipt.ID, receipt.Path, receipt.SHA256}, []any{again.ID, again.Path, again.SHA256}) {
				t.Errorf("second Commit gave %+v, first %+v", again, receipt)
			}
			must(t, s.Abort())
			must(t, s.Close())
			_, err = s.Write([]byte("more"))
			want(t, "Write after Commit", err, fs.ErrClosed)
			must(t, r.Check(receipt))
			if got := content(t, base, receipt.Path); got != "one two" {
				t.Errorf("content %q", got)
			}
		}
		noStage(t, base)
	})
}

func TestStageAbort(t *testing.T) {
	for name, end := range map[string]func(*Staged) error{"Abort": (*Staged).Abort, "Close": (*Staged).Close} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			for _, missing := range []error{nil, errNotHere} {
				seam := hook(r, answers(map[string]error{"unnamed": missing}))
				for _, target := range []string{"f", "new"} {
					s, err := r.Stage(target, PutOptions{})
					must(t, err)
					_, err = s.Write([]byte("x"))
					must(t, err)
					must(t, end(s))
					must(t, s.Abort())
					must(t, s.Close())
					_, err = s.Commit()
					want(t, name+" then Commit", err, fs.ErrClosed)
					if errors.Is(err, fs.ErrNotExist) || Code(err) != "closed" {
						t.Errorf("Commit: %v, code %q", err, Code(err))
					}
					_, err = s.Write(nil)
					want(t, name+" then Write", err, fs.ErrClosed)
					_, err = s.File()
					want(t, name+" then File", err, fs.ErrClosed)
				}
				untouched(t, base)
				r.sys = seam.system
			}
		})
	}
}

// What failed to be written whole is not published, whoever ignores the error.
func TestStageBrokenWrite(t *testing.T) {
	for name, c := range map[string]struct {
		write error
		limit int64
		cause error
		n     int
	}{
		"no space":    {shortWrite{2, syscall.ENOSPC}, 0, syscall.ENOSPC, 2},
		"no progress": {shortWrite{0, nil}, 0, syscall.EIO, 0},
		"limit":       {nil, 4, ErrTooLarge, 0},
	} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				for _, target := range []string{"f", "new"} {
					seam := hook(r, answers(map[string]error{"write": c.write}))
					s, err := r.Stage(target, PutOptions{MaxBytes: c.limit})
					must(t, err)
					n, err := s.Write([]byte("12345"))
					want(t, "Write", err, c.cause)
					if n != c.n {
						t.Errorf("wrote %d, want %d", n, c.n)
					}
					seam.before = nil
					_, err = s.Write([]byte("1"))
					want(t, "the next Write", err, c.cause)
					receipt, err := s.Commit()
					want(t, "Commit", err, c.cause)
					if receipt.Published != identity.Unpublished {
						t.Errorf("%+v", receipt)
					}
					r.sys = seam.system
				}
				untouched(t, base)
			})
		})
	}
}

// case 43: short writes are gone on with.
func TestStageShortWrites(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		s := hook(r, answers(map[string]error{"write": shortWrite{3, nil}}))
		_, err := r.Put("f", []byte("0123456789"), PutOptions{})
		must(t, err)
		if s.count("write") != 4 || content(t, base, "f") != "0123456789" {
			t.Errorf("%d writes, %q", s.count("write"), content(t, base, "f"))
		}
	})
}

func TestStageNoReplace(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		_, err := r.Stage("f", PutOptions{NoReplace: true})
		want(t, "existing", err, fs.ErrExist)
		s, err := r.Stage("new", PutOptions{NoReplace: true})
		must(t, err)
		must(t, os.WriteFile(base+"/root/new", []byte("theirs"), 0o600))
		_, err = s.Commit()
		want(t, "made meanwhile", err, fs.ErrExist)
		if got := content(t, base, "new"); got != "theirs" {
			t.Errorf("content %q", got)
		}
		noStage(t, base)
	})
}

// Of many stages of one new name exactly one is committed.
func TestStageNoReplaceHasOneWinner(t *testing.T) {
	for _, missing := range []map[string]error{nil, {"unnamed": errNotHere},
		{"unnamed": errNotHere, "rename noreplace": errNotHere}} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			hook(r, answers(missing))
			var stages []*Staged
			for i := range 20 {
				s, err := r.Stage("new", PutOptions{NoReplace: true})
				must(t, err)
				fmt.Fprint(s, i)
				stages = append(stages, s)
			}
			won := make([]bool, len(stages))
			var wg sync.WaitGroup
			for i, s := range stages {
				wg.Go(func() {
					_, err := s.Commit()
					if won[i] = err == nil; !won[i] {
						want(t, "loser", err, fs.ErrExist)
					}
				})
			}
			wg.Wait()
			winner := slices.Index(won, true)
			if winner < 0 || slices.Contains(won[winner+1:], true) || content(t, base, "new") != fmt.Sprint(winner) {
				t.Errorf("won: %v, content %q", won, content(t, base, "new"))
			}
			noStage(t, base)
		})
	}
}

// File is the file that gets published: open after Commit, with its lock.
func TestStageFile(t *testing.T) {
	p := Workspace()
	p.Rights |= Share
	for name, missing := range map[string]map[string]error{
		"unnamed": nil,
		"named":   {"unnamed": errNotHere},
		// Neither the capability nor /proc: the copy is made before File gives it out.
		"copied": {"publish": syscall.ENOENT},
	} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, p, func(t *testing.T, r *Root, base string) {
				hook(r, answers(missing))
				for _, target := range []string{"f", "new"} {
					s, err := r.Stage(target, PutOptions{Digest: true})
					must(t, err)
					_, err = s.Write([]byte("begin "))
					must(t, err)
					f, err := s.File()
					must(t, err)
					_, err = f.WriteString("middle ")
					must(t, err)
					_, err = s.Write([]byte("end"))
					must(t, err)
					receipt, err := s.Commit()
					must(t, err)
					sum := sha256.Sum256([]byte("begin middle end"))
					if receipt.SHA256 != hex.EncodeToString(sum[:]) || receipt.Size != 16 {
						t.Errorf("the receipt does not tell what File wrote: %+v", receipt)
					}
					must(t, r.Check(receipt))
					_, err = f.WriteAt([]byte("BEGIN"), 0)
					must(t, err)
					if got := content(t, base, target); got != "BEGIN middle end" {
						t.Errorf("File is another file: %q", got)
					}
					wantLocked(t, base+"/root/"+target, true)
					must(t, f.Close())
					wantLocked(t, base+"/root/"+target, false)
				}
				noStage(t, base)
			})
		})
	}
}

func wantLocked(t *testing.T, path string, locked bool) {
	t.Helper()
	f, err := os.Open(path)
	must(t, err)
	defer f.Close()
	if err = hostSystem().lock(handle(f.Fd())); (err != nil) != locked {
		t.Errorf("lock of %s: %v", path, err)
	}
}

func TestStageFileRefused(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		s, err := r.Stage("f", PutOptions{})
		must(t, err)
		_, err = s.File()
		want(t, "File without Share", err, ErrPolicy)
		must(t, s.Abort())
	})
	p := Workspace()
	p.Rights |= Share
	p.MaxWriteBytes = 8
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		s, err := r.Stage("f", PutOptions{})
		must(t, err)
		f, err := s.File()
		must(t, err)
		defer f.Close()
		_, err = f.WriteString("more than eight bytes")
		must(t, err)
		_, err = s.Commit()
		want(t, "Commit of what File wrote", err, ErrTooLarge)
		must(t, f.Close())
		untouched(t, base)
	})
}

// A stage outlives the call that made it, not its root.
func TestStageAndClosedRoot(t *testing.T) {
	for _, target := range []string{"f", "dir/new"} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			for _, end := range []func(*Staged) error{
				func(s *Staged) error { _, err := s.Commit(); return err },
				func(s *Staged) error { _, err := s.Write([]byte("x")); s.Abort(); return err },
				func(s *Staged) error { _, err := s.File(); s.Close(); return err },
			} {
				sub, err := r.OpenRoot(".")
				must(t, err)
				hook(sub, answers(map[string]error{"unnamed": errNotHere}))
				s, err := sub.Stage(target, PutOptions{})
				must(t, err)
				must(t, sub.Close())
				want(t, "after Close", end(s), fs.ErrClosed)
			}
			untouched(t, base)
		})
	}
}

// Commit looks again at what it replaces.
func TestStageSeesLaterTarget(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		s, err := r.Stage("f", PutOptions{})
		must(t, err)
		must(t, os.Chmod(base+"/root/f", 0o600))
		_, err = s.Commit()
		must(t, err)
		wantMode(t, base, "f", 0o600)
		for name, c := range map[string]struct {
			make  func(path string) error
			cause error
		}{
			"dir":  {func(path string) error { return os.Mkdir(path, 0o700) }, syscall.EISDIR},
			"link": {func(path string) error { symlink(t, "../outside/secret", path); return nil }, ErrSymlink},
			"fifo": {func(path string) error { mkfifo(t, path); return nil }, ErrSpecial},
		} {
			if name == "link" && !makesLinks(t) || name == "fifo" && !hasFIFOs {
				continue
			}
			s, err := r.Stage("at-"+name, PutOptions{})
			must(t, err)
			must(t, c.make(base+"/root/at-"+name))
			_, err = s.Commit()
			want(t, name, err, c.cause)
		}
		noStage(t, base)
	})
}

// Options are those of the time of Stage, whatever the caller does to them.
func TestStageKeepsItsOptions(t *testing.T) {
	notUnderWine(t, "renames over no file that is open")
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		expected, err := r.Receipt("f")
		must(t, err)
		s, err := r.Stage("f", PutOptions{IfMatch: &expected})
		must(t, err)
		theirs(t, base, "theirs")
		expected, err = r.Receipt("f")
		must(t, err)
		_, err = s.Commit()
		want(t, "Commit", err, ErrChanged)
		if got := content(t, base, "f"); got != "theirs" {
			t.Errorf("content %q", got)
		}
		noStage(t, base)
	})
}

// A stage may be used by many goroutines; Commit and Abort race to one result.
func TestStageConcurrentUse(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		for range 50 {
			s, err := r.Stage("f", PutOptions{})
			must(t, err)
			var wg sync.WaitGroup
			errs := make([]error, 4)
			for i := range errs {
				wg.Go(func() {
					s.Write([]byte("x"))
					if i%2 == 0 {
						s.Abort()
					}
					_, errs[i] = s.Commit()
				})
			}
			wg.Wait()
			for _, err := range errs {
				if (err == nil) != (errs[0] == nil) {
					t.Errorf("Commit gave %v and %v", err, errs[0])
				}
			}
		}
		noStage(t, base)
	})
}

// A directory that is gone is not there, whatever the file system calls it.
func TestPutIntoRemovedDirectory(t *testing.T) {
	notUnderWine(t, "acts on the path that a handle was opened by")
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/gone", 0o755))
		sub, err := r.OpenRoot("gone")
		must(t, err)
		defer sub.Close()
		must(t, os.Remove(base+"/root/gone"))
		_, err = sub.Put("f", nil, PutOptions{})
		want(t, "Put", err, fs.ErrNotExist)
		must(t, sub.Close())
	})
}
