package caproot

import "io/fs"

// finish gives the file owner, mode and stable storage before it has a name.
func (p *publication) finish() error {
	sys := p.c.r.sys
	st, err := sys.stat(p.file, "", false)
	if err != nil {
		return err
	}
	mode := p.mode
	switch {
	case p.like != nil:
		mode = p.giveOwner(&st, p.like) & p.c.r.policy.Modes
	case p.exists:
		if kept := p.giveOwner(&st, &p.old); p.keep {
			mode = p.keepAccess(p.c.dir, p.c.leaf, kept) & p.c.r.policy.Modes
		}
	}
	if p.alike {
		mode = p.keepAccess(p.source.h, "", mode) & p.c.r.policy.Modes
	}
	if p.like != nil || p.exists || p.alike {
		// A change of the owner takes bits away, a list changes those of the group.
		if st, err = sys.stat(p.file, "", false); err != nil {
			return err
		}
	}
	if err := setMode(sys, p.file, st.mode&allModes, mode); err != nil {
		return err
	}
	return p.c.syncFile(p.file, p.o.Durability, &p.lost)
}

// giveOwner gives the file, which is as st says, owner and group of another, as
// far as the system permits, and returns the mode that may go with them.
func (p *publication) giveOwner(st, old *status) fs.FileMode {
	sys := p.c.r.sys
	mode := old.mode & allModes
	if st.uid == old.uid && st.gid == old.gid || sys.chown(p.file, int(old.uid), int(old.gid)) == nil {
		return mode
	}
	p.lose("owner")
	// A setuid bit must not move to another owner, and what a group was allowed
	// must not go to another group.
	mode &^= fs.ModeSetuid | fs.ModeSetgid
	if st.gid != old.gid && sys.chown(p.file, -1, int(old.gid)) != nil {
		mode = mode&^0o070 | mode&(mode&0o007<<3)
	}
	return mode
}

// keepAccess gives the file the access list of what name holds in dir. With
// one, the group's bits of a mode are the most that any entry grants (acl(5)), and
// others may have been refused by an entry; without it the mode is the owner's.
func (p *publication) keepAccess(dir handle, name string, mode fs.FileMode) fs.FileMode {
	if p.c.r.sys.copyAccess(dir, name, p.file) == nil {
		return mode
	}
	p.lose("access-list")
	return mode & 0o700
}
