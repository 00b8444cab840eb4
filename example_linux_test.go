package caproot_test

import (
	"context"
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

func ExampleRoot_Batch() {
	r, done := scratch()
	defer done()
	b := r.Batch(caproot.BatchOptions{})
	defer b.Abort()
	for _, name := range []string{"index.html", "style.css"} {
		if err := b.Put(name, []byte("content"), caproot.PutOptions{}); err != nil {
			panic(err)
		}
	}
	report, err := b.Commit(context.Background())
	for _, receipt := range report.Published {
		fmt.Println(receipt.Path, receipt.Published, receipt.Durability)
	}
	fmt.Println(len(report.Failed), len(report.NotTried), err)
	// Output:
	// index.html created file
	// style.css created file
	// 0 0 <nil>
}

func ExampleRoot_Walk() {
	r, done := scratch()
	defer done()
	for _, name := range []string{"src/main.go", "src/lib/lib.go", "vendor/big.go"} {
		if _, err := r.Put(name, []byte("package p\n"), caproot.PutOptions{Parents: true}); err != nil {
			panic(err)
		}
	}
	sources := caproot.WalkOptions{Sorted: true, MaxEntries: 1000, Filter: func(e caproot.Entry) caproot.WalkStep {
		if e.Name() == "vendor" {
			return caproot.WalkSkipTree
		}
		return caproot.WalkTake
	}}
	for e, err := range r.Walk(context.Background(), ".", sources) {
		if err != nil {
			panic(err)
		}
		fmt.Println(e.Path(), e.IsDir())
	}
	// Output:
	// src true
	// src/lib true
	// src/lib/lib.go false
	// src/main.go false
}

func ExamplePolicy_Meet() {
	p := caproot.Workspace().Meet(caproot.ReadOnly())
	fmt.Println(p.Rights == caproot.Read|caproot.List, p.Within(caproot.Workspace()))
	// Output: true true
}

// A host hands a plugin part of a directory: it may work in "out", not touch
// "out/.git", write no more than a kilobyte, and only what the host approves.
func ExampleRoot_Grant() {
	r, done := scratch()
	defer done()
	r.MkdirAll("out/.git", 0o755)
	grant, err := r.Grant("out", caproot.Grant{
		Policy: caproot.Workspace(),
		Deny:   []string{".git"},
		Budget: &caproot.Budget{Bytes: 1 << 10, Files: 10},
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
	plugin := grant.Plugin() // no *os.File, no path of the host

	_, err = plugin.Put("report", []byte("hello"), caproot.PutOptions{})
	fmt.Println("put:", err)
	_, err = plugin.Put("x/../.GIT/config", nil, caproot.PutOptions{Parents: true})
	fmt.Println("denied:", caproot.Code(err))
	fmt.Println("asked:", caproot.Code(plugin.Remove("report")))
	_, err = plugin.Put("big", make([]byte, 2000), caproot.PutOptions{})
	fmt.Println("too much:", caproot.Code(err), grant.Spent())
	grant.Revoke()
	_, err = plugin.ReadFile("report")
	fmt.Println("revoked:", caproot.Code(err))
	// Output:
	// put: <nil>
	// denied: policy
	// asked: policy
	// too much: too-large {5 1}
	// revoked: revoked
}
