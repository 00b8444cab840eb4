package caproot

import (
	"errors"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"
)

// kernelSeam acts before each whole-path call of the kernel, or answers it.
type kernelSeam struct {
	beneathOpener
	calls  int
	before func(n int, path string) error
}

func hookKernel(r *Root, before func(n int, path string) error) *kernelSeam {
	k := &kernelSeam{beneathOpener: r.beneath, before: before}
	r.beneath = k
	return k
}

func (k *kernelSeam) openBeneath(d handle, path string, how openHow, perm fs.FileMode, rule beneathRule) (handle, error) {
	k.calls++
	if k.before != nil {
		if err := k.before(k.calls, path); err != nil {
			return noHandle, err
		}
	}
	return k.beneathOpener.openBeneath(d, path, how, perm, rule)
}

// onKernel is eachResolver for what is about the kernel's resolver alone.
func onKernel(t *testing.T, p Policy, test func(t *testing.T, r *Root, base string)) {
	if !kernelResolves() {
		t.Skip("no openat2 on this system")
	}
	eachResolver(t, p, func(t *testing.T, r *Root, base string) {
		if r.beneath != nil {
			test(t, r, base)
		}
	})
}

// kernelOnly is Workspace where the kernel's word is wanted.
func kernelOnly() Policy {
	p := Workspace()
	p.Containment = KernelAtomic
	return p
}

// Where the policy wants the kernel's word, a place that a walk found, through
// links or "..", is confirmed by the kernel.
func TestKernelConfirmsWalk(t *testing.T) {
	onKernel(t, kernelOnly(), func(t *testing.T, r *Root, base string) {
		k := hookKernel(r, nil)
		for _, name := range []string{"in/made", "dir/../in/made", "in/./../dir/made"} {
			k.calls = 0
			receipt, err := r.Put(name, []byte("x"), PutOptions{Ancestry: true})
			must(t, err)
			if receipt.Path != "dir/made" || receipt.Containment != KernelAtomic || k.calls == 0 || len(receipt.Ancestry) != 1 {
				t.Errorf("%s: %+v after %d calls", name, receipt, k.calls)
			}
		}
		receipt, err := r.Receipt("in")
		must(t, err)
		if receipt.Path != "dir" || receipt.Containment != KernelAtomic {
			t.Errorf("%+v", receipt)
		}
		for name, cause := range map[string]error{"out/x": ErrEscape, "abs/x": ErrEscape, "../x": ErrEscape, "no/x": fs.ErrNotExist} {
			_, err := r.Put(name, nil, PutOptions{})
			want(t, name, err, cause)
		}
	})
}

// Between walk and confirmation the directory becomes another one, or a link to
// the outside: the answer is ErrUnstable, and nothing was done.
func TestKernelDoesNotConfirm(t *testing.T) {
	for name, attack := range map[string]func(root string) error{
		"another directory": func(root string) error {
			return errors.Join(os.Rename(root+"/dir", root+"/away"), os.Mkdir(root+"/dir", 0o755))
		},
		"a link to outside": func(root string) error {
			return unix.Renameat2(unix.AT_FDCWD, root+"/dir", unix.AT_FDCWD, root+"/out", unix.RENAME_EXCHANGE)
		},
		"a link inside": func(root string) error {
			return errors.Join(os.Rename(root+"/dir", root+"/away"), os.Symlink("away", root+"/dir"))
		},
	} {
		t.Run(name, func(t *testing.T) {
			onKernel(t, kernelOnly(), func(t *testing.T, r *Root, base string) {
				hookKernel(r, func(_ int, path string) error {
					if path == "dir" { // what the walk from "in" found
						must(t, attack(base+"/root"))
					}
					return nil
				})
				_, err := r.Put("in/new", []byte("x"), PutOptions{})
				want(t, "Put", err, ErrUnstable)
				for _, dir := range []string{"root", "root/dir/", "root/away/", "outside"} {
					if _, err := os.Lstat(base + "/" + dir + "/new"); err == nil {
						t.Errorf("made in %s", dir)
					}
				}
				noStage(t, base)
			})
		})
	}
}

// An answer of the kernel that the walk does not bear out came from a change in
// between: the kernel is asked again, a bounded number of times.
func TestKernelIsAskedAgain(t *testing.T) {
	for _, answer := range []error{syscall.ELOOP, syscall.EXDEV, syscall.ENOTDIR} {
		for _, p := range []Policy{kernelOnly(), Workspace()} {
			onKernel(t, p, func(t *testing.T, r *Root, base string) {
				k := hookKernel(r, func(n int, _ string) error {
					if n == 1 {
						return answer
					}
					return nil
				})
				data, err := r.ReadFile("in/file")
				if string(data) != "file" || err != nil {
					t.Errorf("%q, %v", data, err)
				}
				if asked := map[Containment]int{KernelAtomic: 2, Walked: 1}[p.Containment]; k.calls != asked {
					t.Errorf("the kernel was asked %d times, want %d", k.calls, asked)
				}
				// For ever is an error where the kernel's word is wanted.
				k.calls, k.before = 0, func(int, string) error { return answer }
				data, err = r.ReadFile("in/file")
				if p.Containment == Walked {
					must(t, err)
					return
				}
				want(t, "ReadFile", err, ErrUnstable)
				if k.calls != 1+maxRaces || data != nil {
					t.Errorf("asked %d times, %q", k.calls, data)
				}
			})
		}
	}
}

// Other answers of the kernel are answers. case 20
func TestKernelAnswersStand(t *testing.T) {
	for _, answer := range []error{syscall.EPERM, syscall.EACCES, syscall.EIO, syscall.EMFILE, syscall.ENOENT, syscall.ENOSYS} {
		onKernel(t, Workspace(), func(t *testing.T, r *Root, base string) {
			k := hookKernel(r, func(int, string) error { return answer })
			s := hook(r, nil)
			for verb, call := range map[string]func(string) error{"ReadFile": verbs(r)["ReadFile"], "Put": verbs(r)["Put"], "Chmod": verbs(r)["Chmod"]} {
				want(t, verb, call("dir/file"), answer)
			}
			if s.count("enter") != 0 {
				t.Errorf("walked after %v: %q", answer, s.log)
			}
			k.before = nil
			want(t, "escape", verbs(r)["ReadFile"]("out/secret"), ErrEscape)
		})
	}
}

// case 24: a path longer than the kernel takes is walked; where the kernel's
// word is wanted it is refused as what it is.
func TestPathBeyondPathMax(t *testing.T) {
	for _, p := range []Policy{Workspace(), kernelOnly()} {
		if p.Containment == KernelAtomic && !kernelResolves() {
			continue
		}
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			if r.beneath == nil && p.Containment == KernelAtomic {
				return // Open does not give such a root
			}
			long := strings.Repeat(strings.Repeat("d", 200)+"/", 25)
			deep := Workspace()
			maker, err := Open(base+"/root", deep)
			must(t, err)
			defer maker.Close()
			must(t, maker.MkdirAll(long, 0o755))
			must(t, maker.WriteFile(long+"file", []byte("deep"), 0o600))
			data, err := r.ReadFile(long + "file")
			receipt, perr := r.Put(long+"made", []byte("x"), PutOptions{})
			if p.Containment == KernelAtomic {
				want(t, "ReadFile", err, syscall.ENAMETOOLONG)
				want(t, "Put", perr, syscall.ENAMETOOLONG)
				must(t, maker.Close())
				return
			}
			must(t, err)
			must(t, perr)
			if string(data) != "deep" || receipt.Path != long+"made" {
				t.Errorf("%q, %q", data, receipt.Path)
			}
			must(t, maker.Close())
			// ".." to the very root, and one more.
			up := strings.Repeat("../", 25)
			must(t, verbs(r)["ReadFile"](long+up+"f"))
			want(t, "one more", verbs(r)["ReadFile"](long+up+"../outside/secret"), ErrEscape)
		})
	}
}

// A walk holds a bounded number of directories; ".." beyond them finds the way
// again from the root, and notices when that is not the way it came.
func TestWalkBeyondHeldDirectories(t *testing.T) {
	const depth = maxHeld + 30
	down, up := strings.Repeat("d/", depth), strings.Repeat("../", depth-1)
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, r.MkdirAll(down, 0o755))
		must(t, r.WriteFile("d/file", []byte("top"), 0o600))
		must(t, os.Symlink(down+up+"file", base+"/root/winding"))
		for _, name := range []string{down + up + "file", "winding", down + "../" + up + "f"} {
			if _, err := r.ReadFile(name); err != nil {
				t.Errorf("%.20s: %v", name, err)
			}
		}
		receipt, err := r.Put(down+up+"made", []byte("x"), PutOptions{})
		must(t, err)
		if receipt.Path != "d/made" {
			t.Errorf("path %q", receipt.Path)
		}
		want(t, "above the root", verbs(r)["Put"](down+up+"../../made"), ErrEscape)
	})
	for name, attack := range map[string]func(root string) error{
		"moved away": func(root string) error { return os.Rename(root+"/d", root+"/away") },
		"a link to outside": func(root string) error {
			return unix.Renameat2(unix.AT_FDCWD, root+"/d", unix.AT_FDCWD, root+"/out", unix.RENAME_EXCHANGE)
		},
		"a file": func(root string) error {
			return errors.Join(os.Rename(root+"/d", root+"/away"), os.WriteFile(root+"/d", nil, 0o600))
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				must(t, r.MkdirAll(down, 0o755))
				entered := 0
				s := hook(r, func(event string) error {
					if event == "enter d" {
						if entered++; entered == depth+1 {
							must(t, attack(base+"/root"))
						}
					}
					return nil
				})
				_, err := r.Put(down+up+"made", []byte("x"), PutOptions{})
				want(t, "Put", err, ErrChanged)
				if errors.Is(err, fs.ErrNotExist) || errors.Is(err, fs.ErrExist) {
					t.Errorf("%v looks like absence", err)
				}
				if s.count("enter") <= depth {
					t.Errorf("only %d directories entered", s.count("enter"))
				}
				for _, dir := range []string{"root/away", "root/out", "outside", "root"} {
					if _, err := os.Lstat(base + "/" + dir + "/made"); err == nil {
						t.Errorf("made in %s", dir)
					}
				}
				noStage(t, base)
			})
		})
	}
}
