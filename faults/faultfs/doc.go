// Package faultfs is a file system in memory, served by FUSE, which fails, lies
// and forgets as a test tells it to. It runs on Linux.
package faultfs
