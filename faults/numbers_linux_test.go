package faults

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/faults/faultfs"
	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/lock"
)

// case 72, 73: an object whose number changes is another object to every check: a
// replacement is refused before it does damage, and at most one stage stays for
// each refusal.
func TestNumbersThatChange(t *testing.T) {
	for name, o := range map[string]faultfs.Options{
		"on lookup, unnamed": {Numbers: faultfs.NumbersNewOnLookup},
		"on lookup":          {Numbers: faultfs.NumbersNewOnLookup, NoUnnamed: true},
		"on rename, unnamed": {Numbers: faultfs.NumbersNewOnRename},
		"on rename":          {Numbers: faultfs.NumbersNewOnRename, NoUnnamed: true},
	} {
		t.Run(name, func(t *testing.T) {
			f, base := mounted(t, o)
			for _, verb := range []string{"Put", "Put new", "Put NoReplace", "PutFrom", "CopyIn", "Batch", "Move Replace", "Put IfMatch", "Remove", "RemoveTree", "ReadFile"} {
				dir := base + "/" + strings.ReplaceAll(verb, " ", "-")
				fill(t, dir)
				r := opened(t, dir, durable())
				v := scarceVerbs()[verb]
				old := contents(t, dir)
				receipt, err := v.run(r)
				left := 0
				for path, held := range merged(old, contents(t, dir)) {
					wanted, may := v.names[path]
					switch now := contents(t, dir)[path]; {
					case strings.HasPrefix(path, ".caproot-stage-"):
						left++
					case now != held && !(may && now == wanted):
						t.Errorf("%s: %s holds %q", verb, path, now)
					}
				}
				if left > 2 || left > 0 && err == nil {
					t.Errorf("%s: %v, %d stages left", verb, err, left)
				}
				if err != nil && !errors.Is(err, caproot.ErrChanged) {
					t.Errorf("%s: %v", verb, err)
				}
				t.Logf("%-13s %v %q %v, %d stages left", verb, receipt.Published, receipt.Lost, caproot.Code(err), left)
			}
			f.Set(nil)
		})
	}
}

// Same is proved by nothing where handles say no more than numbers: whoever needs
// proof is refused, and everything else works.
func TestNoGenerations(t *testing.T) {
	_, dir := mounted(t, faultfs.Options{NoGenerations: true})
	r := opened(t, dir, caproot.Workspace())
	receipt, err := r.Put("f", []byte(before), caproot.PutOptions{})
	must(t, err)
	if verdict, why := identity.Compare(receipt.ID, receipt.ID); verdict != identity.Unknown {
		t.Errorf("%v, %v", verdict, why)
	}
	for what, err := range map[string]error{
		"Check":    r.Check(receipt),
		"RemoveIf": r.RemoveIf("f", receipt),
		"IfMatch":  func() error { _, err := r.Put("f", nil, caproot.PutOptions{IfMatch: &receipt}); return err }(),
	} {
		want(t, what, err, caproot.ErrChanged)
	}
	if data, err := r.ReadFile("f"); string(data) != before {
		t.Errorf("%q, %v", data, err)
	}
}

// A flush that takes its time is not waited for by Revoke, and publishes nothing
// after it.
func TestRevokeDuringSlowFlush(t *testing.T) {
	f, dir := mounted(t, faultfs.Options{})
	fill(t, dir)
	r := opened(t, dir, caproot.Workspace())
	g, err := r.Grant(".", caproot.Grant{Policy: caproot.Workspace()})
	must(t, err)
	defer g.Close()
	flushing, revoked := make(chan bool), make(chan bool)
	f.Set(func(c faultfs.Call) faultfs.Answer {
		if c.Op == "fsync" {
			flushing <- true
			<-revoked
		}
		return faultfs.Answer{}
	})
	ended := make(chan error)
	go func() {
		_, err := g.Put("f", []byte(after), caproot.PutOptions{})
		ended <- err
	}()
	<-flushing
	g.Revoke()
	close(revoked)
	want(t, "Put", <-ended, caproot.ErrRevoked)
	f.Set(nil)
	if got := f.Files(); got["f"] != before || len(stages(got)) > 0 {
		t.Errorf("%q", got)
	}
}

// case 97: what the flush of a directory may answer, and what not.
func TestDirectoryFlushFails(t *testing.T) {
	f, dir := mounted(t, faultfs.Options{})
	r := opened(t, dir, durable())
	for errno, lost := range map[syscall.Errno]bool{
		syscall.EINVAL: true, syscall.EOPNOTSUPP: true, syscall.EPERM: true, syscall.EIO: false, syscall.ENOSPC: false, syscall.EROFS: false,
	} {
		f.Set(func(c faultfs.Call) faultfs.Answer {
			if c.Op == "fsyncdir" {
				return faultfs.Answer{Errno: errno}
			}
			return faultfs.Answer{}
		})
		receipt, err := r.Put("f", []byte(after), caproot.PutOptions{})
		if (err == nil) != lost || !lost && !errors.Is(err, errno) || receipt.Durability != caproot.DurabilityFile || receipt.Published == identity.Unpublished {
			t.Errorf("%v: %+v, %v", errno, receipt, err)
		}
		f.Set(nil)
	}
}

// The command says that locks are no proof here.
func TestLockStatusCommand(t *testing.T) {
	binary := filepath.Join(t.TempDir(), "caproot")
	if out, err := exec.Command("go", "build", "-o", binary, "../cmd/caproot").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	_, dir := mounted(t, faultfs.Options{})
	r := opened(t, dir, caproot.Workspace())
	l, err := lock.Acquire(t.Context(), r, "target", lock.Options{StaleAfter: time.Hour})
	must(t, err)
	defer l.Release()
	must(t, os.WriteFile(dir+"/target", nil, 0o600))
	out, err := exec.Command(binary, "lock-status", "--json", dir+"/target").CombinedOutput()
	if !strings.Contains(string(out), `"trusted":false`) || !strings.Contains(string(out), `"state":"unknown"`) {
		t.Errorf("%v: %s", err, out)
	}
}
