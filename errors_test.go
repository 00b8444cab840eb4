package caproot

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"strings"
	"syscall"
	"testing"

	"github.com/hashicorp/go-multierror"

	"github.com/caproot/caproot/identity"
)

var causes = map[string]error{
	"escape": ErrEscape, "policy": ErrPolicy, "symlink": ErrSymlink, "hardlink": ErrHardlink, "special": ErrSpecial, "changed": ErrChanged,
	"unstable": ErrUnstable, "revoked": ErrRevoked, "too-large": ErrTooLarge, "mount": ErrMount, "unsupported": ErrUnsupported, "name": ErrName,
	"option": ErrOption,
}

// A cause matches itself, the one standard error it stands for, and no other
// cause; none looks like absence or like a name that is taken.
func TestErrorMatrix(t *testing.T) {
	bridges := map[string]error{"policy": fs.ErrPermission, "revoked": fs.ErrClosed, "name": fs.ErrInvalid, "option": fs.ErrInvalid, "unsupported": errors.ErrUnsupported}
	standard := []error{fs.ErrPermission, fs.ErrClosed, fs.ErrInvalid, fs.ErrNotExist, fs.ErrExist, errors.ErrUnsupported, io.EOF, context.Canceled,
		os.ErrDeadlineExceeded, os.ErrProcessDone}
	for code, cause := range causes {
		for form, err := range map[string]error{
			"bare":        cause,
			"detailed":    because(cause, "particulars"),
			"path error":  &fs.PathError{Op: "put", Path: "x", Err: because(cause, "particulars")},
			"link error":  &os.LinkError{Op: "move", Old: "x", New: "y", Err: cause},
			"collected":   multierror.Append(&fs.PathError{Op: "put", Path: "x", Err: cause}, io.ErrUnexpectedEOF),
			"wrapped":     fmt.Errorf("saving: %w", cause),
			"with a fact": &detail{cause, "particulars", syscall.ENXIO},
		} {
			for other, o := range causes {
				if errors.Is(err, o) != (other == code) {
					t.Errorf("%s %s matches %s: %v", form, code, other, errors.Is(err, o))
				}
			}
			for _, s := range standard {
				if errors.Is(err, s) != (bridges[code] == s) {
					t.Errorf("%s %s matches %v: %v", form, code, s, errors.Is(err, s))
				}
			}
			if got := Code(err); got != code {
				t.Errorf("%s %s has code %q", form, code, got)
			}
			if !strings.Contains(err.Error(), cause.Error()) {
				t.Errorf("%s %s reads %q", form, code, err)
			}
		}
	}
}

// A mismatch is a change, whatever its verdict.
func TestMismatchIsAChange(t *testing.T) {
	for _, v := range []identity.Verdict{identity.Different, identity.Unknown} {
		err := error(&fs.PathError{Op: "check", Path: "x", Err: mismatch(v, identity.ByHandle)})
		for code, cause := range causes {
			if errors.Is(err, cause) != (code == "changed") {
				t.Errorf("%v matches %s: %v", v, code, errors.Is(err, cause))
			}
		}
		var e *MismatchError
		if !errors.As(err, &e) || e.Verdict != v || e.Reason != identity.ByHandle || Code(err) != "changed" {
			t.Errorf("%v: %#v, code %q", v, e, Code(err))
		}
		if proved := strings.Contains(err.Error(), "not the expected object"); proved != (v == identity.Different) {
			t.Errorf("%v reads %q", v, err)
		}
	}
	if err := mismatch(identity.Same, identity.ProofHandle); err != nil {
		t.Errorf("Same is %v", err)
	}
}

func TestCodeOfSystemErrors(t *testing.T) {
	for err, code := range map[error]string{
		nil: "", fs.ErrClosed: "closed", context.Canceled: "canceled", context.DeadlineExceeded: "canceled",
		fs.ErrNotExist: "not-exist", fs.ErrExist: "exist", fs.ErrPermission: "permission", fs.ErrInvalid: "name",
		errors.ErrUnsupported: "unsupported", io.ErrUnexpectedEOF: "io", errors.New("other"): "io",
		syscall.ENOENT: "not-exist", syscall.EEXIST: "exist", syscall.EACCES: "permission", syscall.EPERM: "permission",
		syscall.ENOTEMPTY: "not-empty", syscall.EBUSY: "busy", syscall.ENOTDIR: "not-dir", syscall.EISDIR: "is-dir",
		syscall.ELOOP: "loop", syscall.ENOSPC: "no-space", syscall.ENOSYS: "unsupported", syscall.EIO: "io",
	} {
		if got := Code(err); got != code {
			t.Errorf("Code(%v) = %q, want %q", err, got, code)
		}
		if err == nil {
			continue
		}
		if got := Code(&fs.PathError{Op: "open", Path: "x", Err: err}); got != code {
			t.Errorf("Code of a path error with %v = %q, want %q", err, got, code)
		}
	}
}

// The first of collected failures is the one that tells what happened; a
// failed cleanup after it does not hide it.
func TestCodeOfCollectedFailures(t *testing.T) {
	for _, cleanup := range []error{ErrChanged, ErrPolicy, fs.ErrNotExist, syscall.EIO} {
		err := error(multierror.Append(error(syscall.ENOSPC), cleanup))
		err = &fs.PathError{Op: "put", Path: "x", Err: err}
		if got := Code(err); got != "no-space" {
			t.Errorf("with %v: code %q", cleanup, got)
		}
		if !errors.Is(err, syscall.ENOSPC) || !errors.Is(err, cleanup) {
			t.Errorf("%v hides a part", err)
		}
	}
}
