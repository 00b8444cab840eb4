package caproot

import (
	"bufio"
	"os"
	"os/exec"
	"testing"
)

// stageUntilKilled is the process that dies with stages open: one unnamed, one named.
func stageUntilKilled(t *testing.T, dir string) {
	r, err := Open(dir, Workspace())
	must(t, err)
	for _, missing := range []error{nil, errNotHere} {
		s := hook(r, answers(map[string]error{"unnamed": missing}))
		staged, err := r.Stage("target", PutOptions{})
		must(t, err)
		_, err = staged.Write([]byte("half"))
		must(t, err)
		r.sys = s.system
	}
	os.Stdout.WriteString("staged\n")
	select {}
}

// case 106: a stage is left alone while its process lives, and swept after a kill.
func TestSweepOfKilledProcess(t *testing.T) {
	if dir := os.Getenv("CAPROOT_STAGING"); dir != "" {
		stageUntilKilled(t, dir)
	}
	eachResolver(t, Workspace(), func(t *testing.T, r *Root, base string) {
		child := exec.Command(os.Args[0], "-test.run=^TestSweepOfKilledProcess$")
		child.Env = append(os.Environ(), "CAPROOT_STAGING="+base+"/root")
		out, err := child.StdoutPipe()
		must(t, err)
		must(t, child.Start())
		lines := bufio.NewScanner(out)
		for lines.Scan() && lines.Text() != "staged" {
		}
		stage := stageIn(t, base) // the unnamed one has no name to leave behind
		n, err := r.Sweep(".")
		must(t, err)
		if _, err := os.Lstat(stage); n != 0 || err != nil {
			t.Errorf("swept %d stages of a live process: %v", n, err)
		}
		must(t, child.Process.Kill())
		child.Wait()
		n, err = r.Sweep(".")
		must(t, err)
		if n != 1 {
			t.Errorf("swept %d stages of a dead process", n)
		}
		noStage(t, base)
	})
}
