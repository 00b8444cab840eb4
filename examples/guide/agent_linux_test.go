package guide_test

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/caproot/caproot"
)

// edit is the file tool of an agent: it replaces a text that stands in the file
// once, unless somebody else changed the file since it was read.
func edit(r *caproot.Root, name, old, text string) error {
	seen, err := r.Receipt(name, caproot.WithDigest) // an editor may write in place
	if err != nil {
		return err
	}
	data, err := r.ReadFile(name)
	if err != nil {
		return err
	}
	if strings.Count(string(data), old) != 1 {
		return fmt.Errorf("%q does not stand in %s once", old, name)
	}
	data = []byte(strings.Replace(string(data), old, text, 1))
	_, err = r.Put(name, data, caproot.PutOptions{IfMatch: &seen})
	return err
}

// advice tells the agent what to do about a refusal.
func advice(err error) string {
	switch {
	case err == nil:
		return "done"
	case errors.Is(err, caproot.ErrChanged):
		return "the file was changed meanwhile: read it again"
	case errors.Is(err, caproot.ErrEscape):
		return "this leads out of the workspace"
	case errors.Is(err, caproot.ErrPolicy):
		return "not allowed here"
	}
	return "failed: " + caproot.Code(err)
}

func Example_agent() {
	dir, err := os.MkdirTemp("", "guide")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(dir)
	if err := os.Symlink("/etc", dir+"/config"); err != nil {
		panic(err)
	}

	workspace, err := caproot.Open(dir, caproot.Workspace())
	if err != nil {
		panic(err)
	}
	defer workspace.Close()
	if _, err := workspace.Put("main.go", []byte("package mian\n"), caproot.PutOptions{}); err != nil {
		panic(err)
	}
	fmt.Println(advice(edit(workspace, "main.go", "mian", "main")))
	fmt.Println(advice(edit(workspace, "config/passwd", "root", "me")))
	fmt.Println(advice(edit(workspace, "missing.go", "a", "b")))
	data, err := workspace.ReadFile("main.go")
	fmt.Printf("%s%v\n", data, err)
	// Output:
	// done
	// this leads out of the workspace
	// failed: not-exist
	// package main
	// <nil>
}
