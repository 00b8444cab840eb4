package caproot

import (
	"bytes"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"io"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"github.com/caproot/caproot/identity"
)

func TestPutFromReadsToTheEnd(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		data := bytes.Repeat([]byte("0123456789"), 50_000)
		sum := sha256.Sum256(data)
		for name, src := range map[string]io.Reader{
			"whole":        bytes.NewReader(data),
			"one byte":     iotest.OneByteReader(bytes.NewReader(data[:1000])),
			"half":         iotest.HalfReader(bytes.NewReader(data)),
			"end and data": iotest.DataErrReader(bytes.NewReader(data)),
		} {
			receipt, err := r.PutFrom(t.Context(), "f", src, PutOptions{Digest: true})
			must(t, err)
			if name == "one byte" {
				continue
			}
			if receipt.SHA256 != hex.EncodeToString(sum[:]) || content(t, base, "f") != string(data) {
				t.Errorf("%s: %+v", name, receipt)
			}
		}
		noStage(t, base)
	})
}

// A source that fails, stalls, panics or goes beyond a limit publishes nothing.
func TestPutFromPublishesNothingOnFailure(t *testing.T) {
	broken := errors.New("broken source")
	text := func(s string) io.Reader { return strings.NewReader(s) }
	for name, c := range map[string]struct {
		src   func() io.Reader
		limit int64
		want  error
	}{
		"fails at once":  {func() io.Reader { return iotest.ErrReader(broken) }, 0, broken},
		"fails later":    {func() io.Reader { return io.MultiReader(text("some"), iotest.ErrReader(broken)) }, 0, broken},
		"times out":      {func() io.Reader { return iotest.TimeoutReader(iotest.OneByteReader(text("some"))) }, 0, iotest.ErrTimeout},
		"no progress":    {func() io.Reader { return iotest.ErrReader(nil) }, 0, io.ErrNoProgress},
		"beyond a limit": {func() io.Reader { return text("12345") }, 4, ErrTooLarge},
		"endless":        {func() io.Reader { return endless{} }, 1 << 20, ErrTooLarge},
		"negative limit": {func() io.Reader { return text("") }, -1, ErrOption},
		"breaks off":     {func() io.Reader { return iotest.ErrReader(io.ErrUnexpectedEOF) }, 0, io.ErrUnexpectedEOF},
		"broken pipe":    {func() io.Reader { return closedPipe(broken) }, 0, broken},
	} {
		t.Run(name, func(t *testing.T) {
			eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
				for _, target := range []string{"f", "new"} {
					receipt, err := r.PutFrom(t.Context(), target, c.src(), PutOptions{MaxBytes: c.limit})
					want(t, target, err, c.want)
					if receipt.Published != identity.Unpublished {
						t.Errorf("receipt %+v", receipt)
					}
				}
				untouched(t, base)
			})
		})
	}
}

type endless struct{}

func (endless) Read(p []byte) (int, error) { return len(p), nil }

func closedPipe(err error) io.Reader {
	r, w := io.Pipe()
	w.CloseWithError(err)
	return r
}

func TestPutFromPanickingSource(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("the panic was swallowed")
				}
			}()
			r.PutFrom(t.Context(), "f", panicking{}, PutOptions{})
		}()
		untouched(t, base)
	})
}

type panicking struct{}

func (panicking) Read([]byte) (int, error) { panic("source") }

// A context that ends before the publication prevents it, and its cause shows.
func TestPutFromCanceled(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		why := errors.New("user went away")
		for name, cancelAt := range map[string]int{"before the first read": 0, "between reads": 1, "with the last read": 2} {
			ctx, cancel := context.WithCancelCause(t.Context())
			reads := 0
			if cancelAt == 0 {
				cancel(why)
			}
			_, err := r.PutFrom(ctx, "f", readerFunc(func(p []byte) (int, error) {
				if reads++; reads == cancelAt {
					cancel(why)
				}
				if reads == 2 {
					return copy(p, "end"), io.EOF
				}
				return copy(p, "begin"), nil
			}), PutOptions{})
			want(t, name, err, context.Canceled)
			want(t, name, err, why)
			if Code(err) != "canceled" || reads != cancelAt {
				t.Errorf("%s: code %q after %d reads", name, Code(err), reads)
			}
			cancel(nil)
		}
		plain, cancel := context.WithCancel(t.Context())
		cancel()
		late, cancel := context.WithDeadline(t.Context(), time.Unix(1, 0))
		defer cancel()
		for ctx, cause := range map[context.Context]error{plain: context.Canceled, late: context.DeadlineExceeded} {
			_, err := r.PutFrom(ctx, "f", strings.NewReader("x"), PutOptions{})
			want(t, "without a cause", err, cause)
			if Code(err) != "canceled" {
				t.Errorf("code %q", Code(err))
			}
		}
		untouched(t, base)
	})
}

type readerFunc func([]byte) (int, error)

func (f readerFunc) Read(p []byte) (int, error) { return f(p) }
