package attack

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"
	"strings"
	"sync/atomic"

	"golang.org/x/sys/unix"

	"github.com/caproot/caproot/internal/testfs"
)

// vocabulary has the names that the workers use.
var vocabulary = []string{
	"a", "b", "c", "f", "g", "sub", "lk", "a/b", "a/f", "a/b/c", "a/b/f", "a/b/c/f", "b/c", "b/g", "sub/f", "sub/g", "lk/f", "lk/sub/f",
	"a/../f", "a/b/../../g", "a/b/../../../outside/f", "a/lk/f", "b/lk", "c/g", "sub/", "lk/", "a/b/c/../../lk/g",
	"lk/.", "./a//b/./f", "a/b/..", "/f", "sub/../lk/../outside/f",
}

// victims are the names that the attacker changes.
var victims = []string{"a", "b", "c", "f", "g", "sub", "lk", "a/b", "a/lk", "a/f", "b/lk", "b/c", "a/b/c"}

// targets of links that the attacker makes; %s is the root.
var targets = []string{"../outside", "../../outside", "../../../outside", "%s/../outside", "%s/../outside/f", "../outside/f", "../outside/sub", "..", "../..", ".",
	"a", "b/c", "lk", "../root/a"}

// tree does to names below a directory what is asked, and never leaves it: the
// attacker has no business outside. It does without openat2, which is refused
// to all children of a process that has refused it to itself (seccomp(2)).
type tree struct {
	fd    int
	mount uint64
}

func openTree(root string) (tree, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	if err != nil {
		return tree{}, err
	}
	mount, err := mountOf(fd)
	return tree{fd, mount}, err
}

func mountOf(fd int) (uint64, error) {
	var st unix.Statx_t
	err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, unix.STATX_MNT_ID, &st)
	return st.Mnt_id, err
}

// at calls f with the directory of a name, if it leads there without links and
// mounts.
func (t tree) at(name string, f func(dir int, leaf string) error) error {
	dir, err := unix.FcntlInt(uintptr(t.fd), unix.F_DUPFD_CLOEXEC, 0)
	if err != nil {
		return err
	}
	defer func() { unix.Close(dir) }()
	parent, leaf := path.Split(name)
	for part := range strings.SplitSeq(strings.TrimSuffix(parent, "/"), "/") {
		if part == "" {
			break
		}
		next, err := unix.Openat(dir, part, unix.O_PATH|unix.O_DIRECTORY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0)
		if err != nil {
			return err
		}
		unix.Close(dir)
		dir = next
	}
	if mount, err := mountOf(dir); err != nil || mount != t.mount {
		return unix.EXDEV
	}
	return f(dir, leaf)
}

func (t tree) rename(from, to string, flags uint) error {
	return t.at(from, func(d1 int, l1 string) error {
		return t.at(to, func(d2 int, l2 string) error { return unix.Renameat2(d1, l1, d2, l2, flags) })
	})
}

// lend gives a name to a spare object that it makes, and takes it back.
func (t tree) lend(victim string, spares func(dir int, leaf string) error) error {
	if err := t.at(spare, spares); err != nil {
		t.at(spare, func(dir int, leaf string) error { return unix.Unlinkat(dir, leaf, 0) })
		return err
	}
	err := t.rename(spare, victim, unix.RENAME_EXCHANGE)
	if err == nil {
		t.rename(spare, victim, unix.RENAME_EXCHANGE)
	}
	t.at(spare, func(dir int, leaf string) error { return unix.Unlinkat(dir, leaf, 0) })
	return err
}

// repair makes what the vocabulary expects, so that verbs find something.
func (t tree) repair() {
	for _, d := range []string{"a", "b", "c", "sub", "a/b", "a/b/c", "b/c"} {
		t.at(d, func(dir int, leaf string) error { return unix.Mkdirat(dir, leaf, 0o777) })
	}
	for _, f := range []string{"f", "g", "a/f", "a/b/f", "a/b/c/f", "b/g", "sub/f", "c/g"} {
		t.at(f, func(dir int, leaf string) error {
			fd, err := unix.Openat(dir, leaf, unix.O_CREAT|unix.O_EXCL|unix.O_WRONLY|unix.O_NOFOLLOW|unix.O_CLOEXEC, 0o666)
			if err != nil {
				return err
			}
			defer unix.Close(fd)
			_, err = unix.Write(fd, []byte("inside"))
			return err
		})
	}
}

// mountOver mounts a directory over an open one, where this process may, and
// takes it away again. By a path it could meet a link to the outside.
func mountOver(source string, dir int) error {
	mount, err := unix.OpenTree(unix.AT_FDCWD, source, unix.OPEN_TREE_CLONE|unix.OPEN_TREE_CLOEXEC)
	if err != nil {
		return err
	}
	defer unix.Close(mount)
	err = unix.MoveMount(mount, "", dir, "", unix.MOVE_MOUNT_F_EMPTY_PATH|unix.MOVE_MOUNT_T_EMPTY_PATH)
	if err != nil {
		return err
	}
	return unix.Unmount(fmt.Sprint("/proc/self/fd/", mount), unix.MNT_DETACH)
}

// spare is a name of this attacker's own.
var spare = fmt.Sprint("spare", os.Getpid())

// attacker is what it works with.
type attacker struct {
	tree
	root, mounted, alias string
	r                    *rand.Rand
	done                 *atomic.Int64 // what it did to the tree, for the oracle to see
}

// assault changes the tree until it is killed, mounts a directory in it, and
// gives names in it to a file, if there are any.
func assault(root, mounted, alias string) error {
	t, err := openTree(root)
	if err != nil {
		return err
	}
	done, err := testfs.SharedCounters(counterOf(root))
	if err != nil {
		return err
	}
	a := attacker{t, root, mounted, alias, rand.New(rand.NewPCG(uint64(os.Getpid()), 0)), &done[0]}
	for {
		if a.strike() == nil {
			a.done.Add(1)
		}
	}
}

func (a *attacker) victim() string { return victims[a.r.IntN(len(victims))] }

// strike is one change. It fails where others have changed the tree.
func (a *attacker) strike() error {
	victim := a.victim()
	switch a.r.IntN(10) {
	case 0, 1, 2:
		target := targets[a.r.IntN(len(targets))]
		if target[0] == '%' {
			target = fmt.Sprintf(target, a.root)
		}
		return a.lend(victim, func(dir int, leaf string) error { return unix.Symlinkat(target, dir, leaf) })
	case 3:
		return a.rename(victim, a.victim(), unix.RENAME_EXCHANGE)
	case 4:
		return a.rename(victim, a.victim(), unix.RENAME_NOREPLACE)
	case 5:
		return a.lend(victim, func(dir int, leaf string) error { return unix.Mkfifoat(dir, leaf, 0o666) })
	case 6:
		a.at("f", func(dir int, leaf string) error { return unix.Linkat(dir, leaf, dir, spare, 0) })
		return a.rename(spare, "g", 0)
	case 7:
		if a.mounted != "" {
			return a.at(victim+"/", func(dir int, _ string) error { return mountOver(a.mounted, dir) })
		}
	case 8:
		a.repair()
	case 9:
		if a.alias != "" {
			return a.lend(victim, func(dir int, leaf string) error { return unix.Linkat(unix.AT_FDCWD, a.alias, dir, leaf, 0) })
		}
	}
	return nil
}

// counterOf is where the attacker of a tree counts.
func counterOf(root string) string { return root + ".attacks" }
