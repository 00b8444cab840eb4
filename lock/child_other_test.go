//go:build !linux

package lock

func prepareProcess() {}
