package main

import (
	"os/exec"
	"syscall"
)

// dieTogether has the kernel kill the command when the thread that starts it
// ends. Its own children are not reached.
func dieTogether(cmd *exec.Cmd) { cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL} }
