package exitcleanup

import (
	"bytes"
	"os"
	"strconv"
)

// thisProcess takes the start time, in clock ticks since boot, from
// /proc/self/stat. Without /proc it is unknown.
func thisProcess() owner {
	o := owner{pid: os.Getpid()}
	if stat, err := os.ReadFile("/proc/self/stat"); err == nil {
		o.start = startTicks(stat)
	}
	return o
}

// startTicks returns field 22 of proc_pid_stat(5), or 0. The command in field
// 2 may itself hold spaces and parentheses, so fields are counted from the last
// closing one.
func startTicks(stat []byte) uint64 {
	const afterCommand = 22 - 3
	end := bytes.LastIndexByte(stat, ')')
	if end < 0 {
		return 0
	}
	fields := bytes.Fields(stat[end+1:])
	if len(fields) <= afterCommand {
		return 0
	}
	ticks, err := strconv.ParseUint(string(fields[afterCommand]), 10, 64)
	if err != nil {
		return 0
	}
	return ticks
}
