package caproot

import (
	"errors"
	"io/fs"
	"sync"
	"sync/atomic"
)

// removers are the further workers of a removal. One that is at work gives
// directories away as long as there is room in the queue; what it gave and
// nobody began it takes back, so none waits for work that waits.
type removers struct {
	m       *removal
	gifts   chan *gift
	quit    chan struct{}
	workers sync.WaitGroup
}

// gift is a directory that another worker may empty. The giver removes it.
type gift struct {
	level *emptyLevel
	begun atomic.Bool
	done  chan struct{}
}

// employ starts n workers and returns what ends them.
func (m *removal) employ(n int) (end func()) {
	k := &removers{m: m, gifts: make(chan *gift, 2*n), quit: make(chan struct{})}
	m.crew = k
	for range n {
		k.workers.Go(k.work)
	}
	return func() {
		close(k.quit)
		k.workers.Wait()
		close(k.gifts)
		for g := range k.gifts {
			if g.take() {
				m.c.r.sys.close(g.level.dir)
			}
		}
	}
}

func (k *removers) work() {
	e := emptying{removal: k.m, base: noHandle}
	for {
		select {
		case <-k.quit:
			return
		case g := <-k.gifts:
			if !g.take() {
				continue
			}
			k.empty(&e, g)
		}
	}
}

// empty empties a gift. A callback may end the goroutine in it.
func (k *removers) empty(e *emptying, g *gift) {
	back := false
	defer func() {
		if !back {
			k.m.finish(errExited)
		}
		e.unwind()
		close(g.done)
	}()
	e.levels, e.removed, e.gone = append(e.levels[:0], g.level), 0, 0
	e.empty()
	back = true
}

func (g *gift) take() bool { return g.begun.CompareAndSwap(false, true) }

// give offers the directory l, which is in top, unless there is enough to do.
func (e *emptying) give(top, l *emptyLevel) bool {
	g := &gift{level: l, done: make(chan struct{})}
	select {
	case e.crew.gifts <- g:
	default:
		return false
	}
	e.settle(top, false)
	top.gifts = append(top.gifts, g)
	return true
}

// settle removes directories that others have emptied, and waits for those at
// work when it is told to.
func (e *emptying) settle(l *emptyLevel, wait bool) {
	left := l.gifts[:0]
	for _, g := range l.gifts {
		select {
		case <-g.done:
		default:
			if !wait {
				left = append(left, g)
				continue
			}
			<-g.done
		}
		e.collect(l, g.level)
	}
	clear(l.gifts[len(left):])
	l.gifts = left
}

// collect removes a directory that another worker has emptied and closed. What
// has come into it since is found when its parent is listed again.
func (e *emptying) collect(l, done *emptyLevel) {
	name := done.at.name
	if len(done.stuck) > 0 {
		l.mark(name)
		return
	}
	now, err := e.c.r.sys.stat(l.dir, name, true)
	if errors.Is(err, fs.ErrNotExist) || err == nil && !now.sameObject(&done.st) {
		err = because(ErrChanged, "directory replaced or moved while it was emptied")
	}
	if err == nil && e.afford() {
		err = e.unlinkEmptied(l, name)
	}
	if err != nil && !notEmpty(err) {
		e.stick(l, name, err)
	}
}

// given reports whether another worker may be at work on a name.
func (l *emptyLevel) given(name string) bool {
	for _, g := range l.gifts {
		if g.level.at.name == name {
			return true
		}
	}
	return false
}

// takeBack ends what was given away: it makes one that nobody began the last
// level, or waits for the others and has the directory listed again. It reports
// false when there was nothing.
func (e *emptying) takeBack(top *emptyLevel) bool {
	for i, g := range top.gifts {
		if g.take() {
			top.gifts = append(top.gifts[:i], top.gifts[i+1:]...)
			e.push(g.level)
			return true
		}
	}
	if len(top.gifts) == 0 {
		return false
	}
	e.settle(top, true)
	return e.rewind(top)
}
