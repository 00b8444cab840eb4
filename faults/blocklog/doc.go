// Package blocklog is a disk that remembers every write and every flush, so that a
// test can see what a loss of power at any moment leaves. It runs on Linux.
package blocklog
