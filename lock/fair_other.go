//go:build !linux

package lock

import "fmt"

// queueUp refuses Fair: there are no open-file-description locks to queue with.
func (a *acquisition) queueUp() (leave func(), err error) {
	if a.o.Fair {
		return nil, fmt.Errorf("%w: Fair needs open-file-description locks", ErrUnsupported)
	}
	return func() {}, nil
}
