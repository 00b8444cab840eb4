//go:build !linux

package lock

// watch is for systems where directories are polled.
type watch struct{}

func newWatch(*place) *watch           { return &watch{} }
func (*watch) works() bool             { return false }
func (*watch) events() <-chan struct{} { return nil }
func (*watch) close()                  {}
