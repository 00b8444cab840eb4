package caproot

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// badOptions has a call for each field of each options struct that has values
// which mean nothing.
func badOptions(t *testing.T, r *Root) map[string]error {
	t.Helper()
	first := func(f func() (any, error)) error { _, err := f(); return err }
	walk := func(o WalkOptions) error {
		for _, err := range r.Walk(t.Context(), ".", o) {
			return err
		}
		return nil
	}
	bad := map[string]error{}
	for what, o := range map[string]PutOptions{"durability": {Durability: DurabilityVolatile + 1}, "bytes": {MaxBytes: -1}} {
		o.Parents = true
		bad["Put "+what] = first(func() (any, error) { return r.Put("p/x", nil, o) })
		bad["PutFrom "+what] = first(func() (any, error) { return r.PutFrom(t.Context(), "p/x", strings.NewReader(""), o) })
		bad["Stage "+what] = first(func() (any, error) { return r.Stage("p/x", o) })
		bad["Batch.Put "+what] = r.Batch(BatchOptions{}).Put("p/x", nil, o)
		bad["CopyIn "+what] = first(func() (any, error) {
			return r.CopyIn(t.Context(), "p/x", Source{Root: r, Name: "f"}, CopyOptions{PutOptions: o})
		})
		bad["CopyTree "+what] = first(func() (any, error) {
			return r.CopyTree(t.Context(), "p/x", r, "dir", TreeCopyOptions{File: CopyOptions{PutOptions: o}})
		})
	}
	bad["CopyIn clone"] = first(func() (any, error) {
		return r.CopyIn(t.Context(), "x", Source{Root: r, Name: "f"}, CopyOptions{Clone: CloneRequire + 1})
	})
	bad["Append"] = first(func() (any, error) { return r.Append("x", nil, AppendOptions{Durability: 255}) })
	bad["Move"] = first(func() (any, error) { return r.Move("f", "x", MoveOptions{Durability: 255}) })
	bad["Exchange"] = first(func() (any, error) { return r.Exchange("f", "dir", MoveOptions{Durability: 255}) })
	batch := r.Batch(BatchOptions{Barrier: BarrierFileSystem + 1})
	bad["Batch put"] = batch.Put("x", nil, PutOptions{})
	bad["Batch commit"] = first(func() (any, error) { return batch.Commit(t.Context()) })
	for what, o := range map[string]WalkOptions{
		"entries": {MaxEntries: -1}, "depth": {MaxDepth: -1}, "mounts": {Mounts: MountsCross + 1}, "workers": {Workers: -1},
		"step": {Filter: func(Entry) WalkStep { return WalkLeaf + 1 }},
	} {
		bad["Walk "+what] = walk(o)
	}
	for what, o := range map[string]TreeLimits{
		"entries": {MaxEntries: -1}, "depth": {MaxDepth: -1}, "mounts": {Mounts: MountsCross + 1}, "workers": {Workers: -1},
	} {
		bad["RemoveTree "+what] = first(func() (any, error) { return r.RemoveTree(t.Context(), "dir", o) })
	}
	for what, o := range map[string]TreeCopyOptions{
		"symlinks": {Symlinks: LinksKeep + 1}, "hardlinks": {Hardlinks: LinksKeep + 1}, "workers": {Workers: -1},
		"entries": {MaxEntries: -1}, "depth": {MaxDepth: -1}, "bytes": {MaxBytes: -1}, "clone": {File: CopyOptions{Clone: 9}},
	} {
		bad["CopyTree "+what] = first(func() (any, error) { return r.CopyTree(t.Context(), "x", r, "dir", o) })
	}
	bad["Receipt"] = first(func() (any, error) { return r.Receipt("f", WithDigest, 1<<7) })
	for what, b := range map[string]Budget{"bytes": {-1, 0}, "files": {0, -1}} {
		bad["Grant "+what] = first(func() (any, error) { return r.Grant(".", Grant{Policy: Workspace(), Budget: &b}) })
	}
	return bad
}

// An option that means nothing is refused before anything is touched.
// None stands for the next best, as a limit below zero for no limit.
func TestOptionsOutOfRange(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		before := pathsOf(t, base+"/root")
		for what, err := range badOptions(t, r) {
			var path *fs.PathError
			var link *os.LinkError
			if !errors.Is(err, fs.ErrInvalid) || Code(err) != "option" || !errors.As(err, &path) && !errors.As(err, &link) {
				t.Errorf("%s: %v", what, err)
			}
		}
		if after := pathsOf(t, base+"/root"); after != before {
			t.Errorf("there is\n%s\nwas\n%s", after, before)
		}
	})
}

func pathsOf(t *testing.T, dir string) string {
	t.Helper()
	var names []string
	must(t, filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		names = append(names, path)
		return err
	}))
	return strings.Join(names, "\n")
}

// The greatest values that mean something are taken.
func TestOptionsInRange(t *testing.T) {
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		put := PutOptions{Durability: DurabilityVolatile, MaxBytes: NoLimit}
		_, err := r.Put("p", nil, put)
		must(t, err)
		_, err = r.Append("p", nil, AppendOptions{Durability: DurabilityVolatile})
		must(t, err)
		_, err = r.Move("p", "q", MoveOptions{Durability: DurabilityVolatile})
		must(t, err)
		batch := r.Batch(BatchOptions{Barrier: BarrierFileSystem})
		must(t, batch.Put("b", nil, put))
		_, err = batch.Commit(context.Background())
		must(t, err)
		_, err = r.CopyTree(t.Context(), "copy", r, "dir", TreeCopyOptions{
			File: CopyOptions{PutOptions: put, Clone: CloneNever}, Symlinks: LinksKeep, Hardlinks: LinksKeep,
			MaxEntries: NoLimit, MaxDepth: 1 << 30, MaxBytes: NoLimit, Workers: 2,
		})
		must(t, err)
		for _, err := range r.Walk(t.Context(), ".", WalkOptions{MaxEntries: NoLimit, MaxDepth: 1 << 30, Mounts: MountsCross, Workers: 2}) {
			must(t, err)
		}
		_, err = r.RemoveTree(t.Context(), "copy", TreeLimits{MaxEntries: NoLimit, MaxDepth: 1 << 30, Mounts: MountsCross, Workers: 2})
		must(t, err)
	})
}
