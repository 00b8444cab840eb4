package caproot

import (
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
			e.levels, e.removed, e.gone = append(e.levels[:0], g.level), 0, 0
			e.empty()
			e.unwind()
			close(g.done)
		}
	}
}

func (g *gift) take() bool { return g.begun.CompareAndSwap(false, true) }

// give offers the directory l, which is in top, unless there is enough to do.
func (k *removers) give(top, l *emptyLevel) bool {
	g := &gift{level: l, done: make(chan struct{})}
	select {
	case k.gifts <- g:
	default:
		return false
	}
	top.settle(false)
	top.gifts = append(top.gifts, g)
	return true
}

// settle forgets gifts that are done, and waits for them when it is told to.
func (l *emptyLevel) settle(wait bool) {
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
		if len(g.level.stuck) > 0 {
			l.mark(g.level.at.name)
		}
	}
	clear(l.gifts[len(left):])
	l.gifts = left
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
	top.settle(true)
	return e.rewind(top)
}
