package caproot_test

import (
	"errors"
	"fmt"
	"os"

	"github.com/caproot/caproot"
)

func scratch() (*caproot.Root, func()) {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	r, err := caproot.Open(dir, caproot.Workspace())
	if err != nil {
		panic(err)
	}
	return r, func() { r.Close(); os.RemoveAll(dir) }
}

func ExampleOpen() {
	r, done := scratch()
	defer done()
	_, err := r.ReadFile("../etc/passwd")
	fmt.Println(errors.Is(err, caproot.ErrEscape), caproot.Code(err))
	// Output: true escape
}

func ExampleRoot_Put() {
	r, done := scratch()
	defer done()
	first, err := r.Put("notes/today.md", []byte("one"), caproot.PutOptions{Parents: true})
	fmt.Println(first.Path, first.Published, err)
	second, err := r.Put("notes/today.md", []byte("two"), caproot.PutOptions{IfMatch: &first})
	fmt.Println(second.Published, err)
	_, err = r.Put("notes/today.md", []byte("three"), caproot.PutOptions{IfMatch: &first})
	fmt.Println(caproot.Code(err))
	// Output:
	// notes/today.md created <nil>
	// swapped <nil>
	// changed
}

func ExamplePolicy_Meet() {
	p := caproot.Workspace().Meet(caproot.ReadOnly())
	fmt.Println(p.Rights == caproot.Read|caproot.List, p.Within(caproot.Workspace()))
	// Output: true true
}
