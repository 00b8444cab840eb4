package caproot

import (
	"io/fs"
	"math"

	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/pathsafe"
)

// Policy is what a Root may do. It is a plain comparable value: print it,
// compare it, shrink it with Meet. Its zero value allows nothing; begin with a
// preset. In each field a greater value allows more, except Durability.
type Policy struct {
	// Rights lists the kinds of operation.
	Rights Rights
	// Links says which symbolic links a reading verb follows.
	Links LinkRule
	// MutationLinks says which links a changing verb follows on the way to the
	// parent, and with Follow in the last component too.
	MutationLinks LinkRule
	// LinkTargets says which targets a symbolic link may have where it is made or
	// moved to. The check narrows, it does not prove: it reads the text of the link
	// alone, a directory is moved with whatever links are in it, and a directory
	// above the link can be moved later. A Root follows no link out, whatever its
	// text; other programs do.
	LinkTargets TargetRule
	// Hardlinks says what may be done to a file with more than one name. The
	// check narrows, it does not prove: a name may be added after it.
	Hardlinks HardlinkRule
	// Mounts says whether a path may leave the mount of the root's directory.
	Mounts MountRule
	// Special says whether FIFOs, sockets and devices may be opened.
	Special SpecialRule
	// Modes is the mask of permission, setuid, setgid and sticky bits that may be
	// set. A creation mode is cut by it as by a umask; a mode that is asked for
	// exactly (Chmod, PutOptions.Mode) and does not fit is refused.
	Modes fs.FileMode
	// Names is the table of pathsafe that every spelling must pass.
	Names pathsafe.Profile
	// MaxReadBytes limits what one ReadFile, AppendFile or digest reads, and each
	// file that is copied, by a Move to another file system too.
	MaxReadBytes int64
	// MaxWriteBytes limits the size of a file that one call publishes or writes. A
	// call that adds to a file looks at the size and then writes, and no system does
	// both in one step: parallel Appends, or writes by several Files or processes, may
	// together pass the limit by what they have under way. It does not bind what is written through an *os.File (Create, OpenFile,
	// CreateTemp, CreateUnnamed): OpenView gives a File that it binds.
	MaxWriteBytes int64
	// Durability is the least a publication gives: a call may ask for more, and
	// gets no less. DurabilityDefault is DurabilityDir.
	Durability Durability
	// Bind says whether calls go on once the root's path names another directory.
	Bind BindRule
	// Containment is the weakest resolution accepted: KernelAtomic refuses with
	// ErrUnsupported where the kernel cannot resolve a whole path by itself.
	Containment Containment
}

// Containment tells how a path was kept inside: by the kernel in one step, or
// by a walk that holds the handle of each directory. As a requirement its zero
// value is the strictest.
type Containment = identity.Containment

// The two containments.
const (
	KernelAtomic = identity.KernelAtomic
	Walked       = identity.Walked
)

// Durability tells what is on stable storage when a publication returns.
type Durability = identity.Durability

// The durabilities, see identity.Durability.
const (
	DurabilityDefault  = identity.DurabilityDefault
	DurabilityDir      = identity.DurabilityDir
	DurabilityFile     = identity.DurabilityFile
	DurabilityNone     = identity.DurabilityNone
	DurabilityVolatile = identity.DurabilityVolatile
)

// NoLimit is the value of a byte limit that limits nothing.
const NoLimit = math.MaxInt64

// Rights is a set of kinds of operation.
type Rights uint16

const (
	Read    Rights = 1 << iota // content of files
	List                       // names and metadata; OpenRoot and Grant of what has a name
	Create                     // new files
	Replace                    // an existing name gets another object
	Modify                     // content of an existing file, in place
	Mkdir                      // new directories
	Move                       // names change place
	Remove                     // names go
	Link                       // new hard links
	Symlink                    // new symbolic links
	Attrib                     // mode, owner, times
	Share                      // take descriptors of directories and stages out (Root.File, Open of a directory, Staged.File)

	// AllRights is every right.
	AllRights = Read | List | Create | Replace | Modify | Mkdir | Move | Remove | Link | Symlink | Attrib | Share
)

// LinkRule says which symbolic links are followed, always inside the root.
type LinkRule uint8

const (
	LinksRefuse        LinkRule = iota // none
	LinksFollowParents                 // those before the last component
	LinksFollow                        // all
	// LinksResolveInRoot follows all; an absolute target starts at the root and
	// ".." at the root stays there, as after chroot(2).
	LinksResolveInRoot
)

// TargetRule says which targets a new symbolic link may have.
type TargetRule uint8

const (
	TargetsInside TargetRule = iota // relative, inside the root by its text, no ".." after a name
	TargetsAny
)

// HardlinkRule says what may be done to a file with several names.
type HardlinkRule uint8

const (
	HardlinksRefuse         HardlinkRule = iota // nothing
	HardlinksRefuseMutation                     // reading it
	HardlinksAllow
)

// MountRule says whether mount points are crossed.
type MountRule uint8

const (
	MountsStay MountRule = iota
	MountsCross
)

// SpecialRule says whether FIFOs, sockets and devices are opened.
type SpecialRule uint8

const (
	// SpecialRefuse answers ErrSpecial without waiting.
	SpecialRefuse SpecialRule = iota
	// SpecialAllow opens them as the system does: a FIFO without a peer blocks.
	SpecialAllow
)

// BindRule says what a Root is bound to.
type BindRule uint8

const (
	// BindPath makes each call fail with ErrChanged once the path the root was
	// opened by names another directory.
	BindPath BindRule = iota
	// BindHandle binds to the directory itself, wherever it is moved.
	BindHandle
)

const (
	specialModes = fs.ModeSetuid | fs.ModeSetgid | fs.ModeSticky
	allModes     = fs.ModePerm | specialModes
	worldWrite   = fs.FileMode(0o002)
)

// ReadOnly lets code read everything inside, following links that stay inside.
func ReadOnly() Policy {
	p := Workspace()
	p.Rights = Read | List
	p.MutationLinks = LinksRefuse
	p.Modes, p.MaxWriteBytes = 0, 0
	return p
}

// Workspace is for tools and upload handlers that work in a directory of their
// own. Links inside are followed, except where the last component of a change
// is one; files shared by hard link are readable but not changeable in place;
// mounts, special files, setuid and world-writable modes are refused.
func Workspace() Policy {
	return Policy{
		Rights:        AllRights &^ Share,
		Links:         LinksFollow,
		MutationLinks: LinksFollowParents,
		Hardlinks:     HardlinksRefuseMutation,
		Modes:         fs.ModePerm &^ worldWrite,
		Names:         pathsafe.Host,
		MaxReadBytes:  NoLimit,
		MaxWriteBytes: NoLimit,
		Durability:    DurabilityFile,
		Bind:          BindHandle,
		Containment:   Walked,
	}
}

// Extract is for writing names that a stranger chose into a directory: no link
// is followed, and every name must be one that all systems can hold.
func Extract() Policy {
	p := Workspace()
	p.Links, p.MutationLinks = LinksRefuse, LinksRefuse
	p.Hardlinks = HardlinksRefuse
	p.Names = pathsafe.Portable
	p.Rights &^= Modify
	return p
}

// Compat has the rules of os.Root. The differences that remain are listed in
// docs/compat.md.
func Compat() Policy {
	return Policy{
		Rights:        AllRights,
		Links:         LinksFollow,
		MutationLinks: LinksFollow,
		LinkTargets:   TargetsAny,
		Hardlinks:     HardlinksAllow,
		Mounts:        MountsCross,
		Special:       SpecialAllow,
		Modes:         allModes,
		Names:         pathsafe.Host,
		MaxReadBytes:  NoLimit,
		MaxWriteBytes: NoLimit,
		Durability:    DurabilityNone,
		Bind:          BindHandle,
		Containment:   Walked,
	}
}

// Meet returns the greatest policy that both p and q allow: what it permits,
// each of them permits.
func (p Policy) Meet(q Policy) Policy {
	return Policy{
		Rights:        p.Rights & q.Rights,
		Links:         min(p.Links, q.Links),
		MutationLinks: min(p.MutationLinks, q.MutationLinks),
		LinkTargets:   min(p.LinkTargets, q.LinkTargets),
		Hardlinks:     min(p.Hardlinks, q.Hardlinks),
		Mounts:        min(p.Mounts, q.Mounts),
		Special:       min(p.Special, q.Special),
		Modes:         p.Modes & q.Modes,
		Names:         p.Names.Meet(q.Names),
		MaxReadBytes:  min(p.MaxReadBytes, q.MaxReadBytes),
		MaxWriteBytes: min(p.MaxWriteBytes, q.MaxWriteBytes),
		Durability:    min(p.Durability.OrDir(), q.Durability.OrDir()),
		Bind:          min(p.Bind, q.Bind),
		Containment:   min(p.Containment, q.Containment),
	}
}

// Within reports whether p allows nothing that q does not.
func (p Policy) Within(q Policy) bool { return p.Meet(q) == p.normal() }

// normal spells the defaults out, so that equal policies compare equal.
func (p Policy) normal() Policy { return p.Meet(p) }
