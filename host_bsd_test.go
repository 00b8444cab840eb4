//go:build darwin || freebsd

package caproot

import (
	"io/fs"
	"os"
	"testing"
)

func openFDs(t *testing.T) int {
	fds, err := os.ReadDir("/dev/fd")
	must(t, err)
	return len(fds)
}

// changed is left to the other comparisons: its name differs by system.
func changed(fs.FileInfo) string { return "" }

// resolvers are the ways to resolve a path that there are.
func resolvers() []string { return []string{"walker"} }
