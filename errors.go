package caproot

import (
	"context"
	"errors"
	"io/fs"
	"path"
	"syscall"

	"github.com/hashicorp/go-multierror"
)

// reason is a cause that callers compare by identity. It may stand for one
// standard error too, never for fs.ErrNotExist or fs.ErrExist: a refusal must
// not look like absence, or callers delete their copies.
type reason struct {
	code string
	text string
	also error
}

func (r *reason) Error() string        { return r.text }
func (r *reason) Is(target error) bool { return r.also != nil && target == r.also }

// Causes of a refusal. Every error of a Root is an *fs.PathError or an
// *os.LinkError around one of these or around the system's own errno; test
// with errors.Is.
var (
	// ErrEscape is returned when a name, or a link met on the way, leaves the root.
	ErrEscape error = &reason{code: "escape", text: "path escapes from root"}
	// ErrPolicy is returned when the policy or grant of the root does not allow
	// the operation. It matches fs.ErrPermission.
	ErrPolicy error = &reason{code: "policy", text: "refused by policy", also: fs.ErrPermission}
	// ErrSymlink is returned when the policy does not follow a symbolic link that
	// stands in the way, or when a verb acts on names and the name is a link.
	ErrSymlink error = &reason{code: "symlink", text: "symbolic link not followed"}
	// ErrHardlink is returned when a file has further names and the policy does
	// not read or change such files.
	ErrHardlink error = &reason{code: "hardlink", text: "file has more than one hard link"}
	// ErrSpecial is returned for a FIFO, socket or device where the policy refuses
	// them, and for one in the way of a publication.
	ErrSpecial error = &reason{code: "special", text: "not a regular file or directory"}
	// ErrChanged is returned when something observed is now something else, or
	// when it cannot be proved that it is still the same.
	ErrChanged error = &reason{code: "changed", text: "object changed"}
	// ErrUnstable is returned when the file system changed so often under a call
	// that its budget of retries ran out. Trying again is sensible.
	ErrUnstable error = &reason{code: "unstable", text: "file system changed too often meanwhile"}
	// ErrRevoked is returned by every call on a revoked grant. It matches fs.ErrClosed.
	ErrRevoked error = &reason{code: "revoked", text: "grant revoked", also: fs.ErrClosed}
	// ErrTooLarge is returned when a limit on bytes, entries or depth is passed.
	ErrTooLarge error = &reason{code: "too-large", text: "limit exceeded"}
	// ErrMount is returned when a mount point stands in the way and the policy
	// stays on the root's own mount.
	ErrMount error = &reason{code: "mount", text: "path crosses a mount point"}
	// ErrUnsupported is returned when the system cannot keep the promise that was
	// asked for. It matches errors.ErrUnsupported.
	ErrUnsupported error = &reason{code: "unsupported", text: "not supported by this system", also: errors.ErrUnsupported}
	// ErrOption is returned for an option that is none of its constants, for a limit
	// below zero, and for a context, source, function or file that is nil, before
	// anything is touched. It matches fs.ErrInvalid.
	ErrOption error = &reason{code: "option", text: "invalid option", also: fs.ErrInvalid}
	// ErrName is returned for a spelling that no file can have here, a name too long
	// for the file system among them, or that names nothing the verb could act on. It
	// matches fs.ErrInvalid.
	ErrName error = &reason{code: "name", text: "invalid name", also: fs.ErrInvalid}
)

// detail is a cause with its particulars.
type detail struct {
	kind error
	text string
	err  error // further cause, may be nil
}

func (d *detail) Error() string { return d.kind.Error() + ": " + d.text }

func (d *detail) Unwrap() []error {
	if d.err == nil {
		return []error{d.kind}
	}
	return []error{d.kind, d.err}
}

// The answers of values that no function of this package made: there is nothing
// open behind them.
var (
	errNoRoot  = neverOpened("the root was never opened")
	errNoFile  = neverOpened("the file was never opened")
	errNoStage = neverOpened("the stage was never begun")
	errNoEntry = neverOpened("the entry is of no walk")
)

func neverOpened(text string) error { return &detail{fs.ErrInvalid, text, fs.ErrClosed} }

// The answers for what is nil where something must be.
var (
	errNoContext  = because(ErrOption, "the context is nil")
	errNoSource   = because(ErrOption, "the source is nil")
	errNoFunction = because(ErrOption, "the function is nil")
	errNoFence    = because(ErrOption, "the fence is nil")
	errNoHandle   = because(ErrOption, "the *os.File was never opened")
)

// badName gives a name that the file system has no room for its cause.
func badName(err error) error {
	if err == syscall.ENAMETOOLONG {
		return &detail{ErrName, err.Error(), err}
	}
	return err
}

func because(kind error, text string) error { return &detail{kind: kind, text: text} }

// Code returns the stable short name of an error's cause, which the command
// line prints and audit events carry: "escape", "policy", "symlink",
// "hardlink", "special", "changed", "unstable", "revoked", "too-large",
// "mount", "unsupported", "name", "option", "closed", "canceled", "not-exist", "exist",
// "not-empty", "not-dir", "is-dir", "permission", "busy", "loop", "no-space"
// or, for everything else, "io". What was never opened is "closed" too. It is "" for nil. Of collected failures it is
// the code of the first, which the others followed from.
func Code(err error) string {
	if err == nil {
		return ""
	}
	var all *multierror.Error
	if errors.As(err, &all) && len(all.Errors) > 0 {
		return Code(all.Errors[0])
	}
	for _, r := range []error{ErrEscape, ErrRevoked, ErrSymlink, ErrHardlink, ErrSpecial, ErrMount,
		ErrChanged, ErrUnstable, ErrTooLarge, ErrPolicy, ErrOption, ErrName, ErrUnsupported} {
		if errors.Is(err, r) {
			return r.(*reason).code
		}
	}
	for _, c := range codes {
		if errors.Is(err, c.err) {
			return c.code
		}
	}
	return "io"
}

// codes is searched in order: the narrow errno before the wide bridge it matches.
var codes = []struct {
	err  error
	code string
}{
	{fs.ErrClosed, "closed"},
	{context.Canceled, "canceled"},
	{context.DeadlineExceeded, "canceled"},
	{syscall.ENAMETOOLONG, "name"},
	{syscall.ENOTEMPTY, "not-empty"},
	{syscall.EBUSY, "busy"},
	{syscall.ENOTDIR, "not-dir"},
	{syscall.EISDIR, "is-dir"},
	{syscall.ELOOP, "loop"},
	{syscall.ENOSPC, "no-space"},
	{syscall.EDQUOT, "no-space"},
	{fs.ErrNotExist, "not-exist"},
	{fs.ErrExist, "exist"},
	{fs.ErrPermission, "permission"},
	{fs.ErrInvalid, "name"},
	{path.ErrBadPattern, "name"},
	{errors.ErrUnsupported, "unsupported"},
}
