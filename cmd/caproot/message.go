package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"unicode"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/pathsafe"
)

const (
	exitDone    = 0
	exitNo      = 1
	exitFailed  = 2
	exitRefused = 3
	exitUsage   = 64 // EX_USAGE of sysexits.h
	exitNoRoot  = 66 // EX_NOINPUT

	exitCannotRun = 69 // EX_UNAVAILABLE, as flock(1)
)

type (
	// usageError is a command line that says nothing sensible.
	usageError struct{ text string }
	// openError is a root that does not open.
	openError struct{ error }
	// inputError is a file of receipts, of a policy or of the plan that cannot be
	// used. It hides an fs.ErrNotExist in it, which would look like an absent object.
	inputError struct{ error }
	// refusal is the answer no, with its code.
	refusal struct{ code, text string }
	// stopped is the end of a command by a signal.
	stopped struct{ what string }
	// noReceipts is a file that should have receipts, and has none.
	noReceipts struct{ file string }
	// status is an exit code whose reasons were already told.
	status int
)

func (e usageError) Error() string { return e.text }
func (e refusal) Error() string    { return e.text }
func (e noReceipts) Error() string {
	return pathsafe.Quote(e.file) + " has no receipts, so nothing is proved; --allow-empty takes it"
}
func (e stopped) Error() string   { return e.what + " stopped by a signal" }
func (e stopped) Unwrap() error   { return context.Canceled }
func (e openError) Unwrap() error { return e.error }
func (s status) Error() string    { return "exit status " + strconv.Itoa(int(s)) }

// fail tells an error and returns the exit code for it, of joined errors the
// worst.
func (s *session) fail(err error) int {
	if parts := joined(err); len(parts) == 1 {
		return s.fail(parts[0])
	} else if parts != nil {
		code := exitDone
		for _, e := range parts {
			code = worse(code, s.fail(e))
		}
		return code
	}
	var done status
	if errors.As(err, &done) {
		return int(done)
	}
	if err != nil {
		s.tell(err)
	}
	return exitOf(err)
}

// joined returns the parts of what errors.Join made. An error with several
// causes unwraps alike, and is told by its own text.
func joined(err error) []error {
	many, ok := err.(interface{ Unwrap() []error })
	if !ok {
		return nil
	}
	parts := many.Unwrap()
	texts := make([]string, len(parts))
	for i, e := range parts {
		texts[i] = e.Error()
	}
	if strings.Join(texts, "\n") != err.Error() {
		return nil
	}
	return parts
}

// tell writes one message for each cause of an error.
func (s *session) tell(err error) {
	if many, ok := errors.AsType[interface {
		error
		WrappedErrors() []error
	}](err); ok {
		for _, e := range many.WrappedErrors() {
			s.tell(e)
		}
		return
	}
	fmt.Fprintf(s.err, "caproot: %s: %s\n", codeOf(err), describe(err))
}

// note tells something that is no error, in the form of one.
func (s *session) note(text string) { fmt.Fprintf(s.err, "caproot: note: %s\n", text) }

func codeOf(err error) string {
	var usage usageError
	var no refusal
	var empty noReceipts
	switch {
	case errors.As(err, &empty):
		return "no-receipts"
	case errors.As(err, &usage):
		return "usage"
	case errors.As(err, &no):
		return no.code
	}
	return lock.Code(err)
}

// exitOf maps an error to the table of exit codes.
func exitOf(err error) int {
	var usage usageError
	var open openError
	var no refusal
	var empty noReceipts
	var mismatch *caproot.MismatchError
	switch {
	case err == nil:
		return exitDone
	case errors.As(err, &empty):
		return exitRefused
	case errors.As(err, &usage):
		return exitUsage
	case errors.As(err, &open):
		return exitNoRoot
	case errors.As(err, &no):
		return exitNo
	case errors.As(err, &mismatch) && mismatch.Verdict == identity.Unknown:
		return exitRefused
	}
	switch lock.Code(err) {
	case "not-exist", "exist", "not-empty", "busy", "stale", "changed":
		return exitNo
	case "record", "escape", "policy", "symlink", "hardlink", "special", "mount", "revoked", "too-large", "unsupported", "name", "option":
		return exitRefused
	}
	return exitFailed
}

// worse returns the exit code that says more of a whole batch: a failure leaves
// it unanswered, a refusal in part, and a no is an answer. Usage and a root that
// does not open end a command before it begins.
func worse(a, b int) int {
	rank := map[int]int{exitDone: 0, exitNo: 1, exitRefused: 2, exitFailed: 3, exitNoRoot: 4, exitUsage: 5}
	if rank[b] > rank[a] {
		return b
	}
	return a
}

// describe is the text of an error with its names quoted, because a name can
// hold a sequence that a terminal obeys.
func describe(err error) string {
	var p *fs.PathError
	var l *os.LinkError
	switch {
	case errors.As(err, &p):
		return p.Op + " " + pathsafe.Quote(p.Path) + ": " + printable(p.Err.Error())
	case errors.As(err, &l):
		return l.Op + " " + pathsafe.Quote(l.Old) + " " + pathsafe.Quote(l.New) + ": " + printable(l.Err.Error())
	}
	return printable(err.Error())
}

func printable(text string) string {
	var b strings.Builder
	for _, r := range text {
		if unicode.IsPrint(r) {
			b.WriteRune(r)
			continue
		}
		q := strconv.QuoteRuneToASCII(r)
		b.WriteString(q[1 : len(q)-1])
	}
	return b.String()
}

// shown is a name as a listing shows it: itself, or quoted if it has anything
// that needs quoting.
func shown(name string) string {
	if q := pathsafe.Quote(name); q != `"`+name+`"` {
		return q
	}
	return name
}
