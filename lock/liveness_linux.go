package lock

import (
	"bytes"
	"errors"
	"io/fs"
	"os"
	"strconv"
	"sync"
	"syscall"
)

// pidNamespace names the namespace that process ids of /proc belong to. It is
// unknown unless /proc shows this process under the id that it has for itself.
var pidNamespace = sync.OnceValue(func() string {
	self, err := os.Readlink("/proc/self")
	if err != nil || self != strconv.Itoa(os.Getpid()) {
		return ""
	}
	name, err := os.Readlink("/proc/self/ns/pid")
	if err != nil {
		return ""
	}
	return name
})

// processStartTime is 0 for a process that does not exist. /proc may hide those
// of other users (hidepid): then its silence proves nothing, and kill(2) is
// asked, which knows a hidden process.
func processStartTime(pid int) (start uint64, known bool) {
	stat, err := os.ReadFile("/proc/" + strconv.Itoa(pid) + "/stat")
	if err == nil {
		return startTicks(stat)
	}
	if !errors.Is(err, fs.ErrNotExist) && !errors.Is(err, syscall.ESRCH) {
		return 0, false
	}
	return 0, syscall.Kill(pid, 0) == syscall.ESRCH
}

// startTicks reads field 22 of proc_pid_stat(5), in ticks since boot. The command
// in field 2 may hold spaces and parentheses: fields count from the last one.
func startTicks(stat []byte) (start uint64, known bool) {
	const afterCommand = 22 - 3
	fields := bytes.Fields(stat[bytes.LastIndexByte(stat, ')')+1:])
	if len(fields) <= afterCommand {
		return 0, false
	}
	start, err := strconv.ParseUint(string(fields[afterCommand]), 10, 64)
	return start, err == nil && start != 0
}
