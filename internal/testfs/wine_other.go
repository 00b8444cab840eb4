//go:build !windows

package testfs

// UnderWine is false on every system that is not Windows.
func UnderWine() bool { return false }
