// Package identity holds the values by which caproot tells objects of a file
// system apart: [ID], the evidence; [Compare], the verdict over two of them; and
// [Receipt], what a call did and to which object. It makes no system call.
//
// A verdict has three values. Unknown is never permission: code that may act
// only on the same object acts on Same alone, and code that looks for a change
// reports Different alone.
//
// # What is evidence
//
// Equal numbers prove nothing, because file systems use file numbers again: ext4
// hands the number of a removed file to the next one created (measured on Linux
// 6.18: 200 times of 200). What outlives a number is the inode generation, alone
// or inside the kernel's file handle. A birth time can only tell objects apart,
// because its clock ticks slowly: of 2,000 files created in a row on ext4, 1,822
// had the birth time of the one before (Linux 6.18). Change and modification
// times are no evidence of identity at all.
//
// A device number counts as it stands. Numbers of anonymous devices (btrfs,
// overlay, NFS, tmpfs) are given out at mount, so a reboot or another
// order of mounts may change them, and Compare then answers Different for the same
// object. It fails closed: no rule lets a device number be passed over.
//
// # Not promised
//
//   - A receipt is evidence, not authority. It is not signed, and anyone who can
//     write one can invent one.
//   - A cloned or restored image repeats every number, handles and generations
//     included, and so does a file system made to lie (FUSE, a network server).
//   - Where the system gives neither a handle nor a generation, the best verdict
//     for the same object is Unknown. So it is for procfs and ramfs, and for FUSE
//     servers that number no generations.
//   - After another mount of the same file system (a reboot, a bind mount) Same
//     needs a birth time too; without one the verdict is Unknown.
//   - On overlay, the first write to a file of a lower layer gives it a new birth
//     time, and Compare answers Different from then on.
//   - Same is about the object at the moment both looks were taken, not about its
//     content: see [Receipt.Compare] for that.
package identity
