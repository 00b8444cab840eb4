package caproot

import (
	"context"
	"errors"
	"io"
	"log/slog"
	"runtime"
)

// Names of events. They are stable.
const (
	EventDone    = "caproot.done"    // a call succeeded
	EventFailed  = "caproot.failed"  // a call failed for a reason of the file system
	EventRefused = "caproot.refused" // a call was refused: name, policy, link, budget, revocation, …
	EventGranted = "caproot.granted" // a grant was made
	EventRevoked = "caproot.revoked" // a grant was revoked
)

// Event is what an observer is told. It comes when the outcome of a call is
// settled, from the goroutine of the call: an observer cannot change the
// outcome, and delays only the return. It must not call Close or Wait on a Root
// of the grant, nor a File of it. One that panics does so to the caller, who does
// not get what the call was to hand out: that is closed.
//
// Each call is told once, a walk when it ends, under the first error that it met or
// gave, be it inline. What is answered later is a call of its own: Info of an entry
// is told as "stat" and Entry.Open as "open", each under the entry's path. A
// publication by Stage or Batch is told as "put" at Commit, or if something had
// stood in its way at Abort; one that is only given up is not told. Of the calls on
// a File only failures are told, by the method, and so are those on a Staged that
// leave the publication as it was; of a Batch what concerns no file of it ("batch").
//
// Methods that differ in form share a verb: Exists is told as "stat", AppendFile as
// "read", Create and WriteFile as "open", Entries as "walk". Verbs that are made of
// others are told as these: Glob is "walk" or "lstat", WalkDir "stat" and "walk",
// CreateTemp an "open", MkdirTemp a "mkdir"; a pattern that means nothing is told by
// the method's own name.
//
// CopyTree and CopyFS are told once, and beside that what they make below their
// directory or fail to make: each file ("copyin", of CopyFS "put"), link ("symlink",
// "link") and directory ("mkdir" if it was not there, of CopyFS "mkdirall" anyway).
// Those who observe the source of CopyTree or CopyIn are told what is read there:
// "walk", "read", "readlink". Move tells these parts too if it copies to another file
// system, those of a directory under the name of a stage.
//
// Grant is told as EventGranted, or if it fails as any other call. A call that a
// callback ends, by a panic or runtime.Goexit, is told as failed, but a publication by
// Stage, PutFrom or CopyIn is then only given up. Not told is what a Root answers from memory: Name,
// Policy, Numbers, Spent; nor are Close, Wait, and a Revoke after another.
type Event struct {
	Name string
	// Verb is the method, in lower case and stable: "put", "removeall", …
	Verb string
	// Dir is the directory of the Root that was called, below the observer's own
	// directory and as of the grant; "" for that directory itself.
	Dir string
	// Path and To are names as the caller spelled them: quote them for display.
	Path, To string
	// Code is Code of the error, Err the error; "" and nil on success.
	Code string
	Err  error
}

// LogEvents returns an observer that logs to l: refusals as warnings, everything
// else as information. The message is Event.Name, the attributes are verb, dir,
// path, to, code and error; an attribute that is empty is left out. Without a
// logger, l nil, it is slog.Default() at the time of each event.
func LogEvents(l *slog.Logger) func(Event) {
	return func(e Event) {
		to := l
		if to == nil {
			to = slog.Default()
		}
		level := slog.LevelInfo
		if e.Name == EventRefused {
			level = slog.LevelWarn
		}
		attrs := make([]slog.Attr, 0, 6)
		for _, a := range []struct{ key, value string }{
			{"verb", e.Verb}, {"dir", e.Dir}, {"path", e.Path}, {"to", e.To}, {"code", e.Code},
		} {
			if a.value != "" {
				attrs = append(attrs, slog.String(a.key, a.value))
			}
		}
		if e.Err != nil {
			attrs = append(attrs, slog.String("error", e.Err.Error()))
		}
		to.LogAttrs(context.Background(), level, e.Name, attrs...)
	}
}

// outcome names an event by how a call ended.
func outcome(code string) string {
	switch code {
	case "":
		return EventDone
	case "escape", "policy", "symlink", "hardlink", "special", "changed", "revoked", "too-large", "mount", "name", "option", "canceled", "closed":
		return EventRefused
	}
	return EventFailed
}

// tell tells the observers of this grant and of those above it.
func (t *tenure) tell(dir string, e Event) {
	for ; t != nil; t = t.parent {
		if t.observe != nil {
			e.Dir = dir
			t.observe(e)
		}
		dir = under(t.at, dir)
	}
}

// The outcome of a call that a callback ended, with a panic or its goroutine.
var (
	errPanicked = errors.New("a callback panicked")
	errExited   = errors.New("a callback ended the goroutine")
)

// exiting tells whether the deferred function that asks was called by
// runtime.Goexit, which recover does not tell from a return.
func exiting() bool {
	var caller [1]uintptr
	runtime.Callers(3, caller[:])
	frame, _ := runtime.CallersFrames(caller[:]).Next()
	return frame.Function == "runtime.Goexit"
}

// tells is true for a call that has observers, until they are told.
func (c *call) tells() bool { return c.g != nil && !c.g.quiet && c.r.tenure.told }

// report tells, once, the outcome of a call that fail has recorded.
func (c *call) report() {
	if !c.tells() {
		return
	}
	c.g.quiet = true
	defer c.takeBack() // an observer that panics takes the result with it
	c.r.report(c.verb.name, c.name, c.g.to, c.g.outcome)
	c.g.result = nil
}

// hush has the call told by another, or by nobody.
func (c *call) hush() {
	if c.g != nil {
		c.g.quiet = true
	}
}

// gives notes what the call hands out when its outcome is told.
func (c *call) gives(result io.Closer) {
	if c.g != nil {
		c.g.result = result
	}
}

func (c *call) takeBack() {
	if c.g.result != nil {
		c.g.result.Close()
	}
}

// reportFailure tells of a call that came to nothing, if anything stood in its way.
func (c *call) reportFailure() {
	if c.g != nil && c.g.outcome != nil {
		c.report()
	}
}

func (r *Root) report(verb, path, to string, err error) {
	code := Code(err)
	r.tenure.tell(r.below, Event{Name: outcome(code), Verb: verb, Path: path, To: to, Code: code, Err: err})
}
