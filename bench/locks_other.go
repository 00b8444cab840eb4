//go:build !linux

package main

import "errors"

const lockWorker = "lock-worker"

func runLocks(string, int) error { return errors.New("the lock benchmarks need Linux") }

func workLocks([]string) error { return errors.New("the lock benchmarks need Linux") }
