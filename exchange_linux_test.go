package caproot

import (
	"io/fs"
	"os"
	"sync"
	"syscall"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/identity"
)

func TestExchange(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.MkdirAll(base+"/root/next/new", 0o755))
		before, err := r.Receipt("next")
		must(t, err)
		receipt, err := r.Exchange("next", "in/../dir", MoveOptions{IfMatch: &before})
		must(t, err)
		if receipt.Path != "dir" || receipt.Published != identity.Swapped || receipt.Op != "exchange" || content(t, base, "next/file") != "file" {
			t.Errorf("%+v", receipt)
		}
		must(t, r.Check(receipt))
		_, err = r.Exchange("f", "dir", MoveOptions{})
		must(t, err)
		_, err = r.Exchange("f", "dir", MoveOptions{IfMatch: &before})
		must(t, err) // it is at f now
		_, err = r.Exchange("f", "dir", MoveOptions{IfMatch: &before})
		want(t, "another object", err, ErrChanged)
		for pair, cause := range map[[2]string]error{
			{"f", "missing"}: fs.ErrNotExist, {"missing", "f"}: fs.ErrNotExist, {"f", "out/secret"}: ErrEscape, {"../outside", "dir"}: ErrEscape,
			{"dir", "dir/new"}: syscall.EINVAL, {"f", "."}: ErrName, {"f/", "dir"}: syscall.ENOTDIR, {"in/", "dir"}: ErrSymlink,
		} {
			_, err := r.Exchange(pair[0], pair[1], MoveOptions{})
			want(t, pair[0]+" and "+pair[1], err, cause)
		}
		s := hook(r, answers(map[string]error{"rename": syscall.EINVAL}))
		_, err = r.Exchange("f", "dir", MoveOptions{})
		want(t, "no such call", err, ErrUnsupported)
		r.sys = s.system
		s = hook(r, once("rename exchange", func() {
			unix.Renameat2(unix.AT_FDCWD, base+"/root/dir", unix.AT_FDCWD, base+"/root/next", unix.RENAME_EXCHANGE)
		}))
		receipt, err = r.Exchange("f", "dir", MoveOptions{})
		r.sys = s.system
		want(t, "given to another meanwhile", err, ErrChanged)
		if receipt.Published != identity.Swapped {
			t.Errorf("%+v", receipt)
		}
	})
}

// A reader of either name always finds a directory.
func TestExchangeHasNoGap(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		must(t, os.Mkdir(base+"/root/next", 0o755))
		stop := make(chan struct{})
		var readers sync.WaitGroup
		readers.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				if _, err := os.Stat(base + "/root/dir"); err != nil {
					t.Error(err)
					return
				}
			}
		})
		for end := time.Now().Add(200 * time.Millisecond); time.Now().Before(end); {
			_, err := r.Exchange("dir", "next", MoveOptions{})
			must(t, err)
		}
		close(stop)
		readers.Wait()
	})
}
