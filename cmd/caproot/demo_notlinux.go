//go:build darwin || freebsd

package main

import "github.com/caproot/caproot"

// mknodZero does not know the number of the device here.
func mknodZero(string) error { return caproot.ErrUnsupported }
