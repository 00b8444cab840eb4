// Package faults holds tests of caproot on file systems that fail, lie, lack
// calls, or lose power. They need root and FUSE, or a loop device, and say so
// where they are skipped.
package faults
