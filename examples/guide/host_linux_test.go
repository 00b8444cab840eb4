package guide_test

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/lock"
	"github.com/caproot/caproot/state"
)

// scratch is a workspace that is removed.
func scratch() (*caproot.Root, func()) {
	dir, err := os.MkdirTemp("", "guide")
	if err != nil {
		panic(err)
	}
	r, err := caproot.Open(dir, caproot.Workspace())
	if err != nil {
		panic(err)
	}
	return r, func() { r.Close(); os.RemoveAll(dir) }
}

// plugin is code that the host does not trust. It sees the verbs, and no
// *os.File, no Root and no path of the host.
func plugin(files caproot.Plugin) {
	_, err := files.Put("report.txt", []byte("done"), caproot.PutOptions{})
	fmt.Println("own file:", err)
	_, err = files.ReadFile("keys/private.pem")
	fmt.Println("withheld:", caproot.Code(err))
	_, err = files.Put("big", make([]byte, 1<<20), caproot.PutOptions{})
	fmt.Println("too much:", caproot.Code(err))
	fmt.Println("removal:", caproot.Code(files.Remove("report.txt")))
}

func Example_plugin() {
	r, done := scratch()
	defer done()
	if err := r.MkdirAll("plugins/demo/keys", 0o755); err != nil {
		panic(err)
	}

	grant, err := r.Grant("plugins/demo", caproot.Grant{
		Policy: caproot.Workspace(),                          // met with r's own
		Deny:   []string{"keys"},                             // by identity, under every name
		Budget: &caproot.Budget{Bytes: 64 << 10, Files: 100}, // what may be written in all
		Before: func(m caproot.Mutation) error {
			if m.Step == caproot.StepRemove {
				return errors.New("nothing is removed here")
			}
			return nil
		},
	})
	if err != nil {
		panic(err)
	}
	defer grant.Close()
	plugin(grant.Plugin())

	grant.Revoke() // at once, with every grant made from it
	_, err = grant.ReadFile("report.txt")
	fmt.Println("later:", caproot.Code(err))
	// Output:
	// own file: <nil>
	// withheld: policy
	// too much: too-large
	// removal: policy
	// later: revoked
}

func Example_state() {
	r, done := scratch()
	defer done()

	type settings struct {
		Theme string `json:"theme"`
		Opens int    `json:"opens"`
	}
	for range 2 {
		// Locked, read, changed, published whole, unlocked.
		err := state.Update(context.Background(), r, "settings.json", func(s *settings) error {
			s.Theme = "dark"
			s.Opens++
			return nil
		}, state.Options{})
		if err != nil {
			panic(err)
		}
	}
	s, err := state.Read[settings](r, "settings.json") // needs no lock
	fmt.Println(s, err)
	// Output: {dark 2} <nil>
}

func Example_lock() {
	r, done := scratch()
	defer done()

	err := lock.With(context.Background(), r, "index.db", lock.Options{}, func(ctx context.Context) error {
		// One holder at a time, in all processes. Should it be killed, the next one
		// goes on at once. ctx ends when the lock is lost.
		wait, cancel := context.WithTimeout(context.Background(), 10*time.Millisecond)
		defer cancel()
		_, err := lock.Acquire(wait, r, "index.db", lock.Options{})
		fmt.Println("another:", errors.Is(err, lock.ErrBusy))
		_, err = r.Put("index.db", []byte("rebuilt"), caproot.PutOptions{})
		return err
	})
	fmt.Println(err)
	// Output:
	// another: true
	// <nil>
}

func Example_errors() {
	r, done := scratch()
	defer done()

	_, err := r.ReadFile("../secret")
	var path *fs.PathError
	if errors.As(err, &path) {
		fmt.Println(path.Op, path.Path) // your own spelling, never a path of the host
	}
	fmt.Println(caproot.Code(err))              // stable, for logs
	fmt.Println(errors.Is(err, fs.ErrNotExist)) // a refusal never looks like absence
	// Output:
	// read ../secret
	// escape
	// false
}

func Example_receipt() {
	r, done := scratch()
	defer done()

	made, err := r.Put("job.json", []byte("{}"), caproot.PutOptions{})
	if err != nil {
		panic(err)
	}
	fmt.Println(r.Check(made)) // it is the file that was made
	if _, err := r.Put("job.json", []byte("[]"), caproot.PutOptions{}); err != nil {
		panic(err)
	}
	fmt.Println(caproot.Code(r.RemoveIf("job.json", made))) // another one has its name
	// Output:
	// <nil>
	// changed
}
