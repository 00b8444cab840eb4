package caproot

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// kernelCopy is a seam that lets copies inside the kernel through, or answers them.
type kernelCopy struct {
	*seam
	ranges func(n int, err error) (int, error)
}

func (k *kernelCopy) clone(to, from handle) error {
	if err := k.event("clone"); err != nil {
		return err
	}
	return linuxSystem{}.clone(to, from)
}

func (k *kernelCopy) copyRange(to, from handle, offset int64, n int) (int, error) {
	if err := k.event("range"); err != nil {
		return 0, err
	}
	n, err := linuxSystem{}.copyRange(to, from, offset, n)
	if k.ranges != nil {
		return k.ranges(n, err)
	}
	return n, err
}

// case 42: 17 MiB byte for byte, however much of it the kernel copies.
func TestCopyIn(t *testing.T) {
	big := bytes.Repeat([]byte("0123456789abcdef!"), 1<<20)
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.WriteFile(base+"/root/big", big, 0o640))
		must(t, os.WriteFile(base+"/root/empty", nil, 0o640))
		stamp := time.Unix(1e9, 5)
		must(t, os.Chtimes(base+"/root/big", stamp, stamp))
		calls := 0
		for how, answer := range map[string]func(int, error) (int, error){
			"all":         nil,
			"0 at second": func(n int, err error) (int, error) { calls++; return map[bool]int{true: n}[calls == 1], err },
			"refused":     func(int, error) (int, error) { return 0, syscall.EXDEV },
		} {
			calls = 0
			real := r.sys
			r.sys = &kernelCopy{&seam{system: real}, answer}
			for _, digest := range []bool{false, true} {
				var done, total int64
				o := CopyOptions{PutOptions: PutOptions{Digest: digest, Parents: true}, KeepMode: true, KeepTimes: true,
					Progress: func(d, of int64) { done, total = d, of }}
				receipt, err := r.CopyIn(t.Context(), "new/copy", Source{Root: r, Name: "big"}, o)
				must(t, err)
				if got := content(t, base, "new/copy"); got != string(big) || receipt.Size != int64(len(big)) || done != receipt.Size || total != done {
					t.Errorf("%s: %d bytes, receipt %d, progress %d of %d", how, len(got), receipt.Size, done, total)
				}
				if receipt.Op != "copyin" || digest && receipt.SHA256 != sumOf(big) || receipt.Mode != 0o640 || !receipt.ModTime.Equal(stamp) {
					t.Errorf("%s: %+v", how, receipt)
				}
				_, err = r.CopyIn(t.Context(), "new/empty", Source{Root: r, Name: "empty"}, o)
				must(t, err)
			}
			r.sys = real
		}
		f, err := os.Open(base + "/outside/secret") // the caller's own
		must(t, err)
		defer f.Close()
		_, err = r.CopyIn(t.Context(), "f", Source{File: f}, CopyOptions{})
		must(t, err)
		if content(t, base, "f") != "secret" {
			t.Error("copy of an open file")
		}
		noStage(t, base)
	})
}

// A reflink where the file system has them.
func TestCopyInClones(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		real := r.sys
		k := &kernelCopy{seam: &seam{system: real}}
		r.sys = k
		defer func() { r.sys = real }()
		_, err := r.CopyIn(t.Context(), "copy", Source{Root: r, Name: "f"}, CopyOptions{Clone: CloneRequire, PutOptions: PutOptions{Digest: true}})
		if errors.Is(err, ErrUnsupported) {
			gone(t, base+"/root/copy")
			if k.count("clone") != 1 || k.count("range") != 0 {
				t.Errorf("calls: %q", k.log)
			}
			t.Skip("the file system has no reflinks")
		}
		must(t, err)
		if content(t, base, "copy") != "content" {
			t.Error("clone has other content")
		}
	})
}

// case 167: a copy of, and into, directories that flip between themselves and a
// link to the outside.
func TestCopyTreeRace(t *testing.T) {
	p := Compat()
	p.Durability = DurabilityNone
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		stop := raceTree(t, base, 2000)
		defer stop()
		to := twin(t, r, base)
		defer to.Close()
		files := int64(0)
		for end, n := time.Now().Add(2*time.Second), 0; time.Now().Before(end); n++ {
			o := TreeCopyOptions{Symlinks: LinksSkip, Hardlinks: LinksSkip, GoOn: true, Workers: 1 + (n+1)%2*3}
			report, err := to.CopyTree(t.Context(), "copy", r, "w", o)
			if files += report.Files; err != nil && Code(err) == "io" {
				t.Error(err)
			}
			// Back into the directories that flip.
			if _, err := r.CopyTree(t.Context(), "w", to, "copy", o); err != nil && Code(err) == "io" {
				t.Error(err)
			}
		}
		stop()
		if files < 1000 {
			t.Errorf("only %d files", files)
		}
		must(t, filepath.WalkDir(base+"/twin", func(path string, d fs.DirEntry, err error) error {
			if err == nil && !d.IsDir() {
				if data, _ := os.ReadFile(path); d.Name() != "file" || string(data) != "inside" {
					t.Errorf("%s holds %q", path, data)
				}
			}
			return err
		}))
	})
}

// The twin: a copy by path brings the outside in.
func TestCopyTreeRaceTwin(t *testing.T) {
	base := t.TempDir()
	must(t, os.MkdirAll(base+"/outside", 0o755))
	must(t, os.WriteFile(base+"/outside/secret", nil, 0o644))
	must(t, os.MkdirAll(base+"/root", 0o755))
	defer raceTree(t, base, 20)()
	for end := time.Now().Add(60 * time.Second); time.Now().Before(end); {
		var found bool
		naiveCopy(base+"/root/w", func(name string) { found = found || strings.HasSuffix(name, "/secret") })
		if found {
			return
		}
	}
	t.Error("the naive copy was never caught: the attack is too weak to prove anything")
}

func sumOf(data []byte) string { s := sha256.Sum256(data); return hex.EncodeToString(s[:]) }
