package exitcleanup

import (
	"os"
	"testing"
)

func TestOwnerIs(t *testing.T) {
	for _, c := range []struct {
		name string
		a, b owner
		want bool
	}{
		{"same", owner{7, 100}, owner{7, 100}, true},
		{"other id", owner{7, 100}, owner{8, 100}, false},
		{"id reused", owner{7, 100}, owner{7, 101}, false},
		{"start unknown", owner{7, 0}, owner{7, 101}, true},
		{"start unknown, other id", owner{7, 0}, owner{8, 0}, false},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.a.is(c.b) != c.want || c.b.is(c.a) != c.want {
				t.Errorf("%v and %v: want %v", c.a, c.b, c.want)
			}
		})
	}
}

func TestThisProcess(t *testing.T) {
	self := thisProcess()
	if self.pid != os.Getpid() || self != thisProcess() {
		t.Errorf("got %+v and %+v", self, thisProcess())
	}
}

// Case 159, the part that needs a fork without exec, which a Go program
// survives only by luck: the memory of the child says who filled the registry.
func TestForeignEntriesDoNotRun(t *testing.T) {
	for _, c := range []struct {
		name   string
		parent func(owner) owner
	}{
		{"other id", func(o owner) owner { o.pid++; return o }},
		{"same id in a new PID namespace", func(o owner) owner { o.start++; return o }},
	} {
		t.Run(c.name, func(t *testing.T) {
			self := thisProcess()
			if self.start == 0 && c.parent(self).pid == self.pid {
				t.Skip("the start time of a process is not known on this system")
			}
			var r registry
			var j journal
			inherited := r.register(j.entry("parent's", nil))
			r.owner = c.parent(self)
			if err := r.run(t.Context()); err != nil {
				t.Error(err)
			}
			j.want(t)
			if !closed(inherited.Done()) || r.pending.Len() != 0 {
				t.Error("inherited entry is still registered")
			}
			r.register(j.entry("own", nil))
			if err := r.run(t.Context()); err != nil {
				t.Error(err)
			}
			j.want(t, "own")
		})
	}
}

func TestRegisterInForkedChildDropsInherited(t *testing.T) {
	var r registry
	var j journal
	r.register(j.entry("parent's", nil))
	r.owner.pid++
	r.register(j.entry("own", nil))
	if err := r.run(t.Context()); err != nil {
		t.Error(err)
	}
	j.want(t, "own")
}
