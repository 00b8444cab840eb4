package caproot

import (
	"errors"
	"io/fs"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/caproot/caproot/identity"
)

// Another writer comes between comparison and exchange: its file is put back.
func TestSwapIsTakenBack(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		old, err := r.Receipt("f")
		must(t, err)
		s := hook(r, nth(1, "rename exchange", func() { theirs(t, base, "theirs") }))
		receipt, err := r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
		want(t, "IfMatch", err, ErrChanged)
		var why *MismatchError
		if !errors.As(err, &why) || why.Verdict != identity.Different || receipt.Published != identity.Unpublished {
			t.Errorf("%v, %+v", err, receipt)
		}
		if got := content(t, base, "f"); got != "theirs" || s.count("rename exchange") != 2 {
			t.Errorf("f holds %q after %q", got, s.log)
		}
		noStage(t, base)
	})
}

// A third writer, or a remover, comes before the exchange is taken back:
// everything keeps a name, the error tells it, and no sweep takes it.
func TestSwapMeetsThirdWriter(t *testing.T) {
	for name, c := range map[string]struct {
		third   func(t *testing.T, base string)
		f, kept string
	}{
		"writer":  {func(t *testing.T, base string) { theirs(t, base, "third") }, "second", "third"},
		"remover": {func(t *testing.T, base string) { must(t, os.Remove(base+"/root/f")) }, "", "second"},
	} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				old, err := r.Receipt("f")
				must(t, err)
				s := hook(r, both(
					nth(1, "rename exchange", func() { theirs(t, base, "second") }),
					nth(2, "rename exchange", func() { c.third(t, base) })))
				_, err = r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
				want(t, "IfMatch", err, ErrChanged)
				if errors.Is(err, fs.ErrNotExist) {
					t.Errorf("%v looks like absence", err)
				}
				s.before = nil
				n, err := r.Sweep(".")
				must(t, err)
				kept := stageIn(t, base)
				if n != 0 || err != nil {
					t.Errorf("swept %d", n)
				}
				data, err := os.ReadFile(kept)
				must(t, err)
				now, _ := os.ReadFile(base + "/root/f")
				if string(data) != c.kept || string(now) != c.f {
					t.Errorf("f holds %q, %s %q", now, kept, data)
				}
			})
		})
	}
}

// The error tells the name of what was kept.
func TestSwapTellsWhatItKept(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		old, err := r.Receipt("f")
		must(t, err)
		hook(r, both(
			nth(1, "rename exchange", func() { theirs(t, base, "second") }),
			nth(2, "rename exchange", func() { theirs(t, base, "third") })))
		_, err = r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
		if kept := strings.TrimPrefix(stageIn(t, base), base+"/root/"); err == nil || !strings.Contains(err.Error(), kept) {
			t.Errorf("%v does not tell %s", err, kept)
		}
	})
}

// While an exchange waits for its verdict a sweep leaves the displaced file
// alone: it is nobody's dead stage, and perhaps the only copy.
func TestSweepSparesDisplacedFile(t *testing.T) {
	for _, unnamed := range []error{nil, syscall.EOPNOTSUPP} {
		eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
			old, err := r.Receipt("f")
			must(t, err)
			other, err := Open(base+"/root", Workspace())
			must(t, err)
			defer other.Close()
			swept := -1
			sweep := func() { swept, _ = other.Sweep(".") }
			hook(r, both(both(
				nth(1, "rename exchange", func() { theirs(t, base, "theirs") }),
				nth(2, "rename exchange", sweep)),
				answers(map[string]error{"unnamed": unnamed})))
			_, err = r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
			want(t, "IfMatch", err, ErrChanged)
			if got := content(t, base, "f"); got != "theirs" || swept != 0 {
				t.Errorf("f holds %q, swept %d", got, swept)
			}
			noStage(t, base)
		})
	}
}

// Where two names cannot be exchanged the receipt says Checked.
func TestSwapWithoutExchange(t *testing.T) {
	for _, missing := range []error{syscall.EINVAL, syscall.ENOSYS, syscall.EOPNOTSUPP} {
		eachResolver(t, volatile(), func(t *testing.T, r *Root, base string) {
			s := hook(r, answers(map[string]error{"rename exchange": missing}))
			old, err := r.Receipt("f")
			must(t, err)
			receipt, err := r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
			must(t, err)
			if receipt.Published != identity.Checked || !slices.Equal(receipt.Lost, []string{"exchange"}) {
				t.Errorf("%+v", receipt)
			}
			_, err = r.Put("f", []byte("mine"), PutOptions{IfMatch: &old})
			want(t, "old receipt", err, ErrChanged)
			receipt, err = r.Put("f", []byte("again"), PutOptions{Durability: DurabilityVolatile})
			must(t, err)
			if receipt.Published != identity.Renamed || !slices.Equal(receipt.Lost, []string{"exchange"}) || content(t, base, "f") != "again" {
				t.Errorf("%+v", receipt)
			}
			if s.count("rename replace") != 2 {
				t.Errorf("calls: %q", s.log)
			}
			noStage(t, base)
		})
	}
}

// An exchange that fails for another reason is a failure: nothing is tried that
// promises less.
func TestExchangeFails(t *testing.T) {
	for _, d := range []Durability{DurabilityFile, DurabilityVolatile} {
		eachResolver(t, volatile(), func(t *testing.T, r *Root, base string) {
			old, err := r.Receipt("f")
			must(t, err)
			s := hook(r, answers(map[string]error{"rename exchange": syscall.EIO}))
			o := PutOptions{Durability: d}
			if d == DurabilityFile {
				o.IfMatch = &old
			}
			_, err = r.Put("f", []byte("mine"), o)
			want(t, "Put", err, syscall.EIO)
			if s.count("rename replace") != 0 {
				t.Errorf("calls: %q", s.log)
			}
			untouched(t, base)
		})
	}
}

// A displaced file that cannot be removed does not take the publication back.
func TestDisplacedFileStays(t *testing.T) {
	eachResolver(t, volatile(), func(t *testing.T, r *Root, base string) {
		s := hook(r, nil)
		for i, matched := range []bool{false, true} {
			old, err := r.Receipt("f")
			must(t, err)
			o := PutOptions{Durability: DurabilityVolatile}
			if matched {
				o.IfMatch = &old
			}
			before := content(t, base, "f")
			s.before = answers(map[string]error{"remove STAGE": syscall.EIO})
			receipt, err := r.Put("f", []byte{byte('0' + i)}, o)
			must(t, err)
			s.before = nil
			if !slices.Equal(receipt.Lost, []string{"cleanup"}) || content(t, base, "f") != string(rune('0'+i)) {
				t.Errorf("%+v", receipt)
			}
			must(t, r.Check(receipt))
			left := stageIn(t, base)
			if data, _ := os.ReadFile(left); string(data) != before {
				t.Errorf("%s holds %q", left, data)
			}
			// It was to be replaced, and is of no use to anybody.
			n, err := r.Sweep(".")
			must(t, err)
			if n != 1 {
				t.Errorf("matched %v: swept %d", matched, n)
			}
		}
	})
}

// The displaced file may be gone already: a sweep was first.
func TestDisplacedFileIsGone(t *testing.T) {
	eachResolver(t, volatile(), func(t *testing.T, r *Root, base string) {
		hook(r, once("remove STAGE", func() { must(t, os.Remove(stageIn(t, base))) }))
		receipt, err := r.Put("f", []byte("mine"), PutOptions{Durability: DurabilityVolatile})
		must(t, err)
		if receipt.Lost != nil {
			t.Errorf("%+v", receipt)
		}
		noStage(t, base)
	})
}

// A directory that takes the name before the exchange gets it back.
func TestExchangeGivesDirectoryBack(t *testing.T) {
	eachResolver(t, volatile(), func(t *testing.T, r *Root, base string) {
		hook(r, nth(1, "rename exchange", func() {
			must(t, os.Remove(base+"/root/f"))
			must(t, os.MkdirAll(base+"/root/f/sub", 0o700))
		}))
		_, err := r.Put("f", []byte("mine"), PutOptions{Durability: DurabilityVolatile})
		want(t, "Put", err, syscall.EISDIR)
		if _, err := os.Stat(base + "/root/f/sub"); err != nil {
			t.Error(err)
		}
		noStage(t, base)
	})
}

// What is not proved to be the expected object is not replaced.
func TestIfMatchNeedsProof(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		known, err := r.Receipt("f")
		must(t, err)
		weak := known
		weak.ID.Handle, weak.ID.HasGen = "", false
		_, err = r.Put("f", nil, PutOptions{IfMatch: &weak})
		want(t, "numbers alone", err, ErrChanged)
		var why *MismatchError
		if !errors.As(err, &why) || why.Verdict != identity.Unknown {
			t.Errorf("%v", err)
		}
		want(t, "RemoveIf", r.RemoveIf("f", weak), ErrChanged)
		want(t, "Check", r.Check(weak), ErrChanged)
		_, err = r.Put("f", nil, PutOptions{IfMatch: &identity.Receipt{}})
		want(t, "the zero receipt", err, ErrChanged)
		_, err = r.Put("new", nil, PutOptions{IfMatch: &known})
		want(t, "nothing there", err, ErrChanged)
		_, err = r.Put("no/new", nil, PutOptions{IfMatch: &known, Parents: true})
		want(t, "no parent there", err, ErrChanged)
		if _, err := os.Lstat(base + "/root/no"); err == nil {
			t.Error("made a parent for what cannot match")
		}
		untouched(t, base)
	})
	p := Workspace()
	p.Rights &^= Read
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		known, err := r.Put("f", []byte("content"), PutOptions{Digest: true})
		must(t, err)
		_, err = r.Put("f", nil, PutOptions{IfMatch: &known})
		want(t, "a digest without Read", err, ErrPolicy)
		untouched(t, base)
	})
}

// A counter that several roots count up by compare-and-swap misses nothing.
func TestSwapLosesNoUpdate(t *testing.T) {
	const writers, each = 6, 100
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/root/f", []byte("0"), 0o600))
		var wg sync.WaitGroup
		for range writers {
			wg.Go(func() {
				own, err := Open(base+"/root", Compat())
				if err != nil {
					t.Error(err)
					return
				}
				defer own.Close()
				for range each {
					for !countUp(t, own) {
					}
				}
			})
		}
		wg.Wait()
		if got := content(t, base, "f"); got != strconv.Itoa(writers*each) {
			t.Errorf("counted to %s, want %d", got, writers*each)
		}
		noStage(t, base)
	})
}

// countUp reports whether it is done with one step, be it by a failure.
func countUp(t *testing.T, r *Root) bool {
	now, err := r.Receipt("f")
	if err != nil {
		return false // replaced while it was looked at
	}
	data, err := r.ReadFile("f")
	if err != nil || r.Check(now) != nil {
		return false
	}
	n, err := strconv.Atoi(string(data))
	if err == nil {
		_, err = r.Put("f", []byte(strconv.Itoa(n+1)), PutOptions{IfMatch: &now})
	}
	if errors.Is(err, ErrChanged) || errors.Is(err, ErrUnstable) {
		return false
	}
	if err != nil {
		t.Error(err)
	}
	return true
}

// The expected file may be locked by others, unreadable, or on a file system
// without locks.
func TestSwapLocksTarget(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		old, err := r.Receipt("f")
		must(t, err)
		holder, err := os.Open(base + "/root/f")
		must(t, err)
		must(t, syscall.Flock(int(holder.Fd()), syscall.LOCK_EX))
		_, err = r.Put("f", nil, PutOptions{IfMatch: &old})
		want(t, "locked by another", err, ErrUnstable)
		untouched(t, base)
		must(t, holder.Close())
		for _, missing := range []error{syscall.ENOLCK, syscall.EOPNOTSUPP, syscall.EBADF, syscall.ENOSYS} {
			s := hook(r, answers(map[string]error{"lock": missing}))
			old, err = r.Put("f", []byte("content"), PutOptions{IfMatch: &old})
			must(t, err)
			if !slices.Equal(old.Lost, []string{"stage-lock", "swap-lock"}) {
				t.Errorf("lost %q", old.Lost)
			}
			r.sys = s.system
		}
		s := hook(r, func(event string) error {
			if event == "open f" {
				return syscall.EACCES
			}
			return nil
		})
		_, err = r.Put("f", nil, PutOptions{IfMatch: &old})
		want(t, "not to be opened at all", err, syscall.EACCES)
		opens := 0
		s.before = func(event string) error {
			if event == "open f" {
				if opens++; opens == 2 { // the first is for resolution only
					return syscall.EACCES
				}
			}
			return nil
		}
		got, err := r.Put("f", []byte("content"), PutOptions{IfMatch: &old})
		must(t, err)
		if !slices.Equal(got.Lost, []string{"swap-lock"}) {
			t.Errorf("lost %q", got.Lost)
		}
		untouched(t, base)
	})
}
