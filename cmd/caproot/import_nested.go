package main

import (
	"fmt"
	"os"
	"path"
	"path/filepath"

	"github.com/caproot/caproot"
)

var errNested = fmt.Errorf("%w: the copy would be inside its own source", caproot.ErrName)

// nested tells, before anything is made, whether the place to copy to is the source
// or inside it. It guards against a slip: where a directory is moved meanwhile, or the
// way up cannot be seen, the import ends all the same, because it copies what it saw
// at first.
func (t *transfer) nested(root string) bool {
	here, err := filepath.EvalSymlinks(root)
	if err == nil {
		here, err = filepath.Abs(filepath.Join(here, t.place()))
	}
	if err != nil {
		return false
	}
	top, err := os.Stat(t.src.Name())
	for err == nil {
		var info os.FileInfo
		if info, err = os.Stat(here); err == nil && os.SameFile(info, top) {
			return true
		}
		up := filepath.Dir(here)
		if up == here {
			return false
		}
		here = up
	}
	return false
}

// place is the directory to copy to, or the nearest above it that is there, by the
// way that has no links.
func (t *transfer) place() string {
	for name := t.base; name != "."; name = path.Dir(name) {
		if receipt, err := t.to.Receipt(name); err == nil {
			return filepath.FromSlash(receipt.Path)
		}
		if path.Dir(name) == name {
			break
		}
	}
	return "."
}
