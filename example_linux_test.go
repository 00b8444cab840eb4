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
