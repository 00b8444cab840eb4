package exitcleanup

// owner names a process. The id alone does not: in a new PID namespace a
// forked child can have the id of its parent.
type owner struct {
	pid   int
	start uint64 // in a unit of the system; 0 is unknown
}

// is reports whether both may be one process. Without a start time only the
// ids can tell them apart. Unknown is not made to mean another process: a
// program that is out of file descriptors could not read it, and would leave
// everything behind, while a forked child with its parent's id and no /proc is
// far-fetched.
func (o owner) is(other owner) bool {
	if o.pid != other.pid {
		return false
	}
	return o.start == 0 || other.start == 0 || o.start == other.start
}
