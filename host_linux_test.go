package caproot

import (
	"io/fs"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/caproot/caproot/identity"
)

func openFDs(t *testing.T) int {
	fds, err := os.ReadDir("/proc/self/fd")
	must(t, err)
	return len(fds)
}

// changed is the time of the last change, of attributes too.
func changed(info fs.FileInfo) string {
	return time.Unix(info.Sys().(*syscall.Stat_t).Ctim.Unix()).String()
}

// resolvers are the ways to resolve a path that there are.
func resolvers() []string { return []string{"kernel", "walker"} }

// swapped is how a known object is replaced.
const swapped = identity.Swapped
