// Package attack lets one process change a tree as fast as it can while others
// work in it through a Root, and sees that nothing outside of the tree is read,
// described or changed.
//
// The attacker exchanges directories with links, swaps names for links out of
// the tree, FIFOs, mounts and hard links to a file outside, and moves
// directories about. The workers call every method of Root that takes a name,
// what is built on it (batches, stages, grants, locks, leases, state, scratch
// directories), with names from one vocabulary. A test fails for a method that
// is not among them.
//
// The oracle compares contents, modes, owners, times and entries outside before
// and after, and looks into all that a call gives for text, names, numbers and
// digests of the outside. Naive workers, who join paths, look at them first, or
// walk without O_NOFOLLOW, show that it sees an escape: each must be caught.
//
//	go test .                                                some seconds for each resolver
//	CAPROOT_ATTACK_CALLS=10000000 go test -v -timeout 4h .   that many calls for each
package attack
