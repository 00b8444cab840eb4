//go:build !linux

package lock

// pidNamespace is unknown where it was not established what a process id is
// good for: then nobody is taken for dead by it.
func pidNamespace() string { return "" }

func processStartTime(int) (uint64, bool) { return 0, false }
