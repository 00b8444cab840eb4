package caproot

import (
	"bytes"
	"context"
	"errors"
	"io"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestSameFileOfNothing(t *testing.T) {
	dir := t.TempDir()
	r, err := Open(dir, Workspace())
	must(t, err)
	defer r.Close()
	info, err := r.Stat(".")
	must(t, err)
	for _, pair := range [][2]fs.FileInfo{{nil, nil}, {info, nil}, {nil, info}} {
		if SameFile(pair[0], pair[1]) {
			t.Errorf("SameFile(%v, %v)", pair[0], pair[1])
		}
	}
}

// Without a logger of its own LogEvents uses the one that is the default at the
// time of the event.
func TestLogEventsByDefault(t *testing.T) {
	observe := LogEvents(nil)
	was := slog.Default()
	defer slog.SetDefault(was)
	var out bytes.Buffer
	slog.SetDefault(slog.New(slog.NewTextHandler(&out, nil)))
	observe(Event{Name: EventRefused, Verb: "put"})
	if got := out.String(); !strings.Contains(got, "verb=put") {
		t.Errorf("logged %q", got)
	}
}

// Every error of Wait is an *fs.PathError, as of any verb.
func TestWaitErrors(t *testing.T) {
	plain, err := Open(t.TempDir(), Workspace())
	must(t, err)
	defer plain.Close()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	granted, err := plain.Grant(".", Grant{Policy: Workspace(), Before: func(Mutation) error { return nil }})
	must(t, err)
	defer granted.Close()
	inside := errors.New("not asked")
	asking, err := granted.Grant(".", Grant{Policy: Workspace(), Before: func(Mutation) error {
		inside = granted.Wait(ended)
		return nil
	}})
	must(t, err)
	defer asking.Close()
	must(t, asking.Mkdir("d", 0o700))
	for what, c := range map[string]struct{ err, cause error }{
		"a plain root":        {plain.Wait(t.Context()), ErrUnsupported},
		"a context that ends": {inside, context.Canceled},
	} {
		var e *fs.PathError
		if !errors.As(c.err, &e) || e.Op != "wait" || !errors.Is(c.err, c.cause) {
			t.Errorf("%s: %#v", what, c.err)
		}
	}
}

func TestTempNameOnlyOfWhatWasMade(t *testing.T) {
	r, err := Open(t.TempDir(), Workspace())
	must(t, err)
	defer r.Close()
	for _, dir := range []string{"missing", "../above"} {
		if f, name, err := r.CreateTemp(dir, "x"); f != nil || name != "" || err == nil {
			t.Errorf("CreateTemp(%q): %v, %q, %v", dir, f, name, err)
		}
		if name, err := r.MkdirTemp(dir, "x"); name != "" || err == nil {
			t.Errorf("MkdirTemp(%q): %q, %v", dir, name, err)
		}
	}
}

// What ended, or was wrong, before the call leaves nothing behind, no parent
// directory either.
func TestPutFromMakesNoParentsInVain(t *testing.T) {
	base := t.TempDir()
	r, err := Open(base, Workspace())
	must(t, err)
	defer r.Close()
	why := errors.New("user went away")
	ended, cancel := context.WithCancelCause(t.Context())
	cancel(why)
	for _, c := range []struct {
		ctx   context.Context
		src   io.Reader
		cause error
	}{{ended, strings.NewReader("x"), why}, {nil, strings.NewReader("x"), fs.ErrInvalid}, {t.Context(), nil, fs.ErrInvalid}} {
		_, one := r.PutFrom(c.ctx, "new/file", c.src, PutOptions{Parents: true})
		b := r.Batch(BatchOptions{})
		defer b.Abort()
		for _, err := range []error{one, b.PutFrom(c.ctx, "new/file", c.src, PutOptions{Parents: true})} {
			var e *fs.PathError
			if !errors.As(err, &e) || e.Path != "new/file" || !errors.Is(err, c.cause) {
				t.Errorf("PutFrom: %v, want %v", err, c.cause)
			}
		}
		if _, err := os.Lstat(filepath.Join(base, "new")); !errors.Is(err, fs.ErrNotExist) {
			t.Fatalf("the parent was made (%v)", err)
		}
	}
}
