// Package caproot gives code part of a file system and nothing else.
//
// A Root is an open directory with rights. Its methods are those of os.Root and
// more: atomic publication (Put, Stage), compare-and-swap (PutOptions.IfMatch),
// receipts that tell an object from its successor (Receipt, Check, RemoveIf),
// and moves that never replace by accident (Move). Policy says what a Root may
// do; derive it from a preset and shrink it with Meet.
//
// On Linux the kernel resolves paths (openat2, Linux 5.6); where it cannot, and
// on Windows, macOS and FreeBSD, a walk that holds every directory does.
// docs/platforms.md says what each system loses and where it was executed.
//
// Not promised: code that imports os is not confined. A directory that a peer
// moves out of the root stays reachable through handles already open. Checks of
// hard links narrow, they do not prove. POSIX has no unlink by handle: RemoveIf
// says what that leaves open.
package caproot
