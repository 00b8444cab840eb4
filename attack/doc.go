// Package attack lets one process change a tree as fast as it can while others
// work in it through a Root, and sees that nothing outside of the tree is read,
// described or changed.
//
// The attacker exchanges directories with links, swaps names for links out of
// the tree, FIFOs, hard links and mounts, and moves directories about. The
// workers call every verb with names from one vocabulary. Three naive workers,
// who join paths or walk without O_NOFOLLOW, show that the oracle sees an
// escape: each must be caught.
//
//	go test .                                     a few seconds for each
//	CAPROOT_ATTACK_CALLS=10000000 go test -v -timeout 2h .   the long run
package attack
