package caproot

import (
	"io"
	"io/fs"
	"sync"

	"github.com/caproot/caproot/pathsafe"
)

var verbWatch = verb{name: "watch", needs: List}

// Watch tells that something happened to names of a directory. It gives no
// descriptor and says nothing of what happened: look. Close ends it.
type Watch struct {
	r       *Root
	events  io.ReadCloser
	changed chan struct{}
	ended   sync.Once
}

// watcher lets the system tell of changes in a directory that is open for
// resolution.
type watcher interface {
	// watch returns a stream of events, which names splits into the names they
	// are about. all is true when events were lost.
	watch(dir handle) (io.ReadCloser, error)
	names(events []byte) (names []string, all bool)
}

// Watch begins to watch the directory dir for names in it that come, go, or are
// written and closed. It needs the right List, and of the system the right to
// list dir. What happened before it returns is not told.
//
// It returns ErrUnsupported where the system tells of no changes: outside Linux,
// without /proc, and on Linux at the limit of watches.
func (r *Root) Watch(dir string, names ...string) (*Watch, error) {
	var c call
	if err := c.begin(r, &verbWatch, dir); err != nil {
		return nil, err
	}
	defer c.end()
	w, err := c.watch(names)
	return w, c.fail(err)
}

func (c *call) watch(names []string) (*Watch, error) {
	wanted := map[string]bool{}
	for _, name := range names {
		if err := pathsafe.Component(name, c.r.policy.Names); err != nil {
			return nil, nameError(err)
		}
		wanted[name] = true
	}
	h, err := c.open(pathOnly|directoryOnly, 0)
	if err != nil {
		return nil, err
	}
	defer c.r.sys.close(h)
	for _, name := range names {
		if err := c.admitEntry(h, name); err != nil {
			return nil, err
		}
	}
	sys, ok := unfenced(c.r.sys).(watcher)
	if !ok {
		return nil, because(ErrUnsupported, "the system tells of no changes")
	}
	events, err := sys.watch(h)
	if err != nil {
		return nil, err
	}
	w := &Watch{r: c.r, events: events, changed: make(chan struct{}, 1)}
	c.gives(w)
	go w.read(sys, wanted)
	return w, nil
}

// Changed has a value when something happened to one of the names since the last
// was taken. It is closed when the watch ended: by Close, or when after the root
// was closed or its grant ended something happened once more.
func (w *Watch) Changed() <-chan struct{} {
	if w == nil {
		return nil
	}
	return w.changed
}

// Close ends the watch. Called again it does nothing.
func (w *Watch) Close() (err error) {
	if w == nil || w.r == nil {
		return &fs.PathError{Op: "close", Err: errNoRoot}
	}
	w.ended.Do(func() { err = w.events.Close() })
	return err
}

func (w *Watch) read(sys watcher, wanted map[string]bool) {
	defer close(w.changed)
	defer w.Close()
	for buf := make([]byte, 16<<10); ; {
		n, err := w.events.Read(buf)
		if err != nil || w.r.holds() != nil {
			return
		}
		names, all := sys.names(buf[:n])
		for _, name := range names {
			all = all || wanted[name]
		}
		if !all {
			continue
		}
		select {
		case w.changed <- struct{}{}:
		default:
		}
	}
}

// holds returns why calls on the root are refused by now, or nil.
func (r *Root) holds() error {
	if r.life.state.Load() >= closing {
		return fs.ErrClosed
	}
	return r.tenure.holds()
}
