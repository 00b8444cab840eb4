package caproot

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

// On every system a copy into its own source is refused before anything is made.
func TestCopyIntoSourceEverywhere(t *testing.T) {
	r, dir := openTree(t, Compat())
	from, err := r.OpenRoot("dir")
	must(t, err)
	defer from.Close()
	sub, err := r.OpenRoot("dir/sub")
	must(t, err)
	defer sub.Close()
	before := listed(t, filepath.Join(dir, "dir", "sub"))
	for _, to := range []string{"dir", "dir/sub", "dir/new", "dir/sub/new/er"} {
		_, err := r.CopyTree(t.Context(), to, r, "dir", TreeCopyOptions{})
		want(t, "CopyTree "+to, err, ErrName)
		want(t, "CopyFS "+to, r.CopyFS(to, from.FS()), ErrName)
		want(t, "CopyFS of DirFS "+to, r.CopyFS(to, os.DirFS(filepath.Join(dir, "dir"))), ErrName)
	}
	_, err = sub.CopyTree(t.Context(), "new", r, ".", TreeCopyOptions{})
	want(t, "CopyTree from above", err, ErrName)
	want(t, "CopyFS from above", sub.CopyFS("new", r.FS()), ErrName)
	if got := listed(t, filepath.Join(dir, "dir", "sub")); !slices.Equal(got, before) {
		t.Errorf("made %q", got)
	}
	must(t, r.CopyFS("beside", from.FS()))
	if got := listed(t, filepath.Join(dir, "beside")); !slices.Equal(got, []string{"file", "sub"}) {
		t.Errorf("beside: %q", got)
	}
}
