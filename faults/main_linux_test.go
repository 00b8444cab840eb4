package faults

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"
)

// inside is set in the process that has mounts of its own.
const inside = "CAPROOT_FAULTS_INSIDE"

// TestMain runs the tests in a mount namespace of their own, so that a killed
// test leaves no mount.
func TestMain(m *testing.M) {
	if os.Geteuid() != 0 || os.Getenv(inside) != "" {
		if role := os.Getenv(roleVariable); role != "" {
			os.Exit(play(role))
		}
		// A hang would outlast the process, in a file system that waits for it.
		flag.Parse()
		if limit := flag.Lookup("test.timeout").Value.(flag.Getter).Get().(time.Duration); limit > 0 {
			time.AfterFunc(limit*9/10, func() {
				unmountAll()
				panic("a test hangs")
			})
		}
		os.Exit(m.Run())
	}
	cmd := exec.Command("/proc/self/exe", os.Args[1:]...)
	cmd.Args[0] = os.Args[0]
	cmd.Env = append(os.Environ(), inside+"=1")
	cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Unshareflags: syscall.CLONE_NEWNS, Pdeathsig: syscall.SIGKILL}
	err := cmd.Run()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		fmt.Println(err)
		os.Exit(1)
	}
	os.Exit(cmd.ProcessState.ExitCode())
}

// unmountAll takes away what is mounted from this process.
func unmountAll() {
	table, _ := os.ReadFile("/proc/self/mountinfo")
	for line := range strings.Lines(string(table)) {
		if fields := strings.Fields(line); strings.Contains(line, " fuse.faultfs ") && len(fields) > 4 {
			syscall.Unmount(fields[4], syscall.MNT_FORCE|syscall.MNT_DETACH)
		}
	}
}
