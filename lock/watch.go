package lock

import "github.com/caproot/caproot"

// watch tells of changes of the record and its guard. Where the system does not,
// it does not work, and the directory is polled.
type watch struct{ of *caproot.Watch }

func newWatch(p *place) *watch {
	w, err := p.dir.Watch(".", p.leaf, p.guard)
	if err != nil {
		return &watch{}
	}
	return &watch{w}
}

func (w *watch) works() bool { return w.of != nil }

func (w *watch) events() <-chan struct{} {
	if w.of == nil {
		return nil
	}
	return w.of.Changed()
}

func (w *watch) close() {
	if w != nil && w.of != nil {
		w.of.Close()
	}
}
