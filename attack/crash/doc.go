// Package crash kills processes with SIGKILL at random points of their work on
// one tree, and looks at what they leave: whole versions only, nothing that was
// told done undone, one holder of a lock at a time, and no file beyond those
// that the documentation names. Then it does what the next process would do, and
// measures how long that takes.
//
// Victims are this test binary, started again, with all features of the kernel
// or without unnamed files or openat2. Of locks a second process wants each too,
// and lives on. Naive works, as people write them instead, show that the
// campaign sees what it looks for: each must be caught.
//
//	go test .                             some kills for each kind of work
//	go test -v . -args -kills 1000        1000 for each, and a table
//
// A kill takes a process, not the machine: what was written stays in the page
// cache. Nothing here says anything about a loss of power.
package crash
