package lock

import (
	"slices"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// fileCalls are the calls by which this package works. What the runtime does on
// its own account is none of them.
var fileCalls = map[uint64]string{
	unix.SYS_OPENAT: "openat", unix.SYS_OPENAT2: "openat2", unix.SYS_CLOSE: "close", unix.SYS_DUP3: "dup3",
	unix.SYS_FSTAT: "fstat", unix.SYS_NEWFSTATAT: "newfstatat", unix.SYS_STATX: "statx", unix.SYS_FSTATFS: "fstatfs",
	unix.SYS_FACCESSAT2: "faccessat2", unix.SYS_NAME_TO_HANDLE_AT: "name_to_handle_at", unix.SYS_FCNTL: "fcntl",
	unix.SYS_IOCTL: "ioctl", unix.SYS_FLOCK: "flock", unix.SYS_PREAD64: "pread64", unix.SYS_PWRITE64: "pwrite64",
	unix.SYS_FTRUNCATE: "ftruncate", unix.SYS_FCHMOD: "fchmod", unix.SYS_UTIMENSAT: "utimensat", unix.SYS_GETEUID: "geteuid",
	unix.SYS_LINKAT: "linkat", unix.SYS_UNLINKAT: "unlinkat", unix.SYS_RENAMEAT2: "renameat2", unix.SYS_FSYNC: "fsync",
}

// An acquisition and release with nobody else there makes no more calls than the
// protocol asks for; what was made must be in the list. The looks at the guard,
// at the record after its publication, and at record and content before its
// removal are what the bounds leave room for.
func TestCallsOfAPair(t *testing.T) {
	for _, tc := range []struct {
		name, env string
		limit     int
		needs     []string // in this order
	}{
		// linkat twice before Linux 6.10, without CAP_DAC_READ_SEARCH.
		{"removed", "", 20, []string{"statx", "openat", "flock", "pwrite64", "linkat", "statx", "statx", "pread64", "statx", "unlinkat", "flock", "close"}},
		{"kept", "KEEP=1", 19, []string{"statx", "flock", "pwrite64", "renameat2", "statx", "statx", "pread64", "pread64", "statx", "renameat2", "flock"}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			var calls []string
			status := trace(t, t.TempDir(), "pair", func(_ int, nr uint64) bool {
				if name := fileCalls[nr]; name != "" {
					calls = append(calls, name)
				}
				return false
			}, tc.env)
			if status != 0 {
				t.Fatalf("child failed with status %d", status)
			}
			t.Logf("%d calls: %s", len(calls), strings.Join(calls, " "))
			if tc.env == "" && !slices.Contains(calls, "linkat") {
				t.Skip("no files without a name here")
			}
			if len(calls) > tc.limit {
				t.Errorf("%d calls, want at most %d", len(calls), tc.limit)
			}
			rest := calls
			for _, name := range tc.needs {
				at := slices.Index(rest, name)
				if at < 0 {
					t.Fatalf("no %s where one is needed in %q", name, calls)
				}
				rest = rest[at+1:]
			}
		})
	}
}
