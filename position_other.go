//go:build !linux && !windows

package caproot

// pathOf: the system tells no path of an open directory.
func pathOf(handle) (path string, ok bool) { return "", false }
