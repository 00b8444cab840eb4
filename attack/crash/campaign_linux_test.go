package crash

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strings"
	"syscall"
	"testing"
	"text/tabwriter"
	"time"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/internal/testfs"
)

var kills = flag.Int("kills", 20, "kills for each kind of work")

// The environment of re-executed processes.
const (
	workVar    = "CAPROOT_CRASH_WORK"
	dirVar     = "CAPROOT_CRASH_DIR"
	seatVar    = "CAPROOT_CRASH_SEAT"
	withoutVar = "CAPROOT_CRASH_WITHOUT"
	mountsVar  = "CAPROOT_CRASH_MOUNTS" // this process has mounts of its own, or cannot
)

func TestMain(m *testing.M) {
	switch name := os.Getenv(workVar); {
	case name != "":
		fmt.Fprintln(os.Stderr, name, live(name))
		os.Exit(1)
	case os.Getenv(mountsVar) == "":
		os.Exit(again())
	}
	os.Exit(m.Run())
}

// again runs the tests where their mounts end with them.
func again() int {
	attr := &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS}
	if os.Geteuid() != 0 {
		attr.Cloneflags = syscall.CLONE_NEWUSER
		attr.UidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getuid(), Size: 1}}
		attr.GidMappings = []syscall.SysProcIDMap{{ContainerID: 0, HostID: os.Getgid(), Size: 1}}
	}
	for _, attr := range []*syscall.SysProcAttr{attr, {}} {
		cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
		cmd.Env = append(os.Environ(), mountsVar+"=1")
		cmd.Stdout, cmd.Stderr, cmd.SysProcAttr = os.Stdout, os.Stderr, attr
		err := cmd.Start()
		if err != nil {
			continue // no right to unshare: what needs a mount says so
		}
		err = cmd.Wait()
		var exit *exec.ExitError
		if err == nil || errors.As(err, &exit) {
			return cmd.ProcessState.ExitCode()
		}
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return 1
}

// work is something that a process is killed in.
type work struct {
	name    string
	prepare func(s *scene) error // once; may be nil
	live    func(s *scene) error // until it is killed; s.ready tells that it begins
	// check tells what is wrong right after a kill; may be nil.
	check func(s *scene) []string
	// restore is what the next process does until it has done the work itself.
	restore func(s *scene) error
	// litter is how many names of its own a killed process may leave until then.
	litter int
	// stays is true for names that may be left after that, as documented.
	stays func(name string) bool
	// bystander makes another process do the same, and live on.
	bystander bool
	// rest is how many deaths there are between two restorations; zero is one.
	rest int
	// once tells that the work is done once, and not counted.
	once bool
	// term sends SIGTERM first: it is the end of the process that is killed.
	term bool
	// lacks are the features that the kernel of one victim after the other lacks.
	lacks []string
}

// result is a row of the table.
type result struct {
	name       string
	kills      int
	violations []string
	done       int64 // by the victims, as far as they told
	orphans    int   // that a kill left until the next process came
	kept       int   // and after it
	recoveries []time.Duration
}

// campaign kills until the number is reached, or enough went wrong.
func (w *work) campaign(t *testing.T, s *scene, kills int) (r result) {
	r.name = w.name
	if w.prepare != nil {
		err := w.prepare(s)
		if errors.Is(err, errNoMount) {
			t.Skip(err)
		}
		must(t, err)
	}
	if w.bystander {
		p := start(t, w, s, bystander, "")
		defer func() {
			p.Process.Kill()
			p.Wait()
		}()
	}
	for round := 0; r.kills < kills && round < 20*kills && len(r.violations) < 10; round++ {
		s.lacks = ""
		if len(w.lacks) > 0 {
			s.lacks = w.lacks[round%len(w.lacks)]
		}
		begun, killed := w.killOne(t, s)
		if !killed {
			continue
		}
		r.kills++
		r.take(w, s, begun, r.kills%max(w.rest, 1) == 0)
	}
	r.done = s.done[victim].Load()
	return r
}

// take looks at what a kill left, and restores.
func (r *result) take(w *work, s *scene, begun time.Time, restore bool) {
	violate := func(format string, args ...any) {
		r.violations = append(r.violations, fmt.Sprintf("kill %d, lacking %q: ", r.kills, s.lacks)+fmt.Sprintf(format, args...))
	}
	left := s.litter()
	if !w.bystander {
		r.orphans += len(left)
		if len(left) > w.litter*max(w.rest, 1) {
			violate("more left than documented: %q", left)
		}
	}
	if w.check != nil {
		for _, what := range w.check(s) {
			violate("%s", what)
		}
	}
	if !restore {
		return
	}
	if err := w.restore(s); err != nil {
		violate("not restored: %v", err)
		return
	}
	r.recoveries = append(r.recoveries, time.Since(begun))
	for _, name := range s.lasting(w.bystander) {
		if w.stays == nil || !w.stays(name) {
			violate("left after the next process: %s", name)
		}
		r.kept++
		if err := os.RemoveAll(s.path(name)); err != nil {
			violate("%v", err)
		}
	}
}

// firstDone bounds the wait for a victim to have done its work once.
const firstDone = 50 * time.Millisecond

// killOne runs a victim up to a random moment of its work. A victim that ended
// by itself, as one may that got SIGTERM, was not killed.
func (w *work) killOne(t *testing.T, s *scene) (begun time.Time, killed bool) {
	told := s.done[victim].Load()
	p := start(t, w, s, victim, s.lacks)
	if !w.term && !w.once && rand.IntN(2) == 0 {
		// Not in its first try: some of them others keep from it.
		for end := time.Now().Add(firstDone); s.done[victim].Load() == told && time.Now().Before(end); {
			time.Sleep(50 * time.Microsecond)
		}
	}
	time.Sleep(rand.N(3 * time.Millisecond))
	if w.term {
		must(t, p.Process.Signal(syscall.SIGTERM))
		// Half of them at once: on some file systems all is cleaned up in no time.
		if rand.IntN(2) == 0 {
			time.Sleep(rand.N(time.Millisecond))
		}
	}
	begun = time.Now()
	p.Process.Kill()
	p.Wait()
	ws := p.ProcessState.Sys().(syscall.WaitStatus)
	switch {
	case ws.Signaled() && ws.Signal() == syscall.SIGKILL:
		return begun, true
	case !w.term:
		t.Fatalf("%s: the victim ended by itself: %v", w.name, p.ProcessState)
	}
	return begun, false
}

// start starts a process that works, and returns when it begins to.
func start(t *testing.T, w *work, s *scene, seat int, without string) *exec.Cmd {
	t.Helper()
	c := exec.Command("/proc/self/exe")
	c.Env = append(os.Environ(), workVar+"="+w.name, dirVar+"="+s.base, fmt.Sprint(seatVar, "=", seat), withoutVar+"="+without)
	c.Stderr = os.Stderr
	up, err := c.StdoutPipe()
	must(t, err)
	must(t, c.Start())
	if _, err := up.Read(make([]byte, 1)); err != nil {
		c.Wait()
		t.Fatalf("%s did not begin: %v", w.name, err)
	}
	return c
}

// live is a process of the campaign.
func live(name string) error {
	if err := testfs.Without(os.Getenv(withoutVar)); err != nil {
		return err
	}
	for _, w := range slices.Concat(works(), twins()) {
		if w.name == name {
			s, err := openScene(os.Getenv(dirVar))
			if err != nil {
				return err
			}
			fmt.Sscan(os.Getenv(seatVar), &s.seat)
			return w.live(s)
		}
	}
	return errors.New("no such work")
}

func works() []*work {
	return slices.Concat(fileWorks(), moveWorks(), lockWorks(), []*work{exitWork()})
}

// A process that is killed at any moment leaves whole versions, undoes nothing
// that it told done, and keeps nobody from going on. cases 94, 106, 107, 112,
// 119, 153, 166.
func TestCampaign(t *testing.T) {
	var table strings.Builder
	rows := tabwriter.NewWriter(&table, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(rows, "work\tdone\tkills\tviolations\torphans\tkept\trecovery p50\tp99\t")
	for _, w := range works() {
		t.Run(w.name, func(t *testing.T) {
			r := w.campaign(t, newScene(t), *kills)
			for _, what := range r.violations {
				t.Error(what)
			}
			if r.kills < *kills {
				t.Errorf("only %d kills", r.kills)
			}
			orphans := fmt.Sprint(r.orphans)
			if w.bystander {
				orphans = "-" // what is there may be a living one's
			}
			fmt.Fprintf(rows, "%s\t%d\t%d\t%d\t%s\t%d\t%v\t%v\t\n", r.name, r.done, r.kills, len(r.violations), orphans, r.kept,
				testfs.Quantile(r.recoveries, 0.5).Round(10*time.Microsecond), testfs.Quantile(r.recoveries, 0.99).Round(10*time.Microsecond))
		})
	}
	rows.Flush()
	t.Logf("\n%s", table.String())
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

var errNoMount = errors.New("no right to mount a file system")

// mount makes the directory far of a scene a file system of its own, until the
// process ends or the scene is taken away.
func mount(s *scene) error {
	if err := os.Mkdir(s.path("far"), 0o755); err != nil {
		return err
	}
	err := unix.Mount("tmpfs", s.path("far"), "tmpfs", 0, "size=64m")
	if err == unix.EPERM || err == unix.EACCES {
		return errNoMount
	}
	return err
}

// policy is that of all works: they cross to what mount mounted.
func policy() caproot.Policy {
	p := caproot.Workspace()
	p.Mounts = caproot.MountsCross
	return p
}
