package attack

import (
	"fmt"
	"math/rand/v2"
	"os"
	"path"

	"golang.org/x/sys/unix"
)

// vocabulary has the names that the workers use.
var vocabulary = []string{
	"a", "b", "c", "f", "g", "sub", "lk", "a/b", "a/f", "a/b/c", "a/b/f", "a/b/c/f", "b/c", "b/g", "sub/f", "sub/g", "lk/f", "lk/sub/f",
	"a/../f", "a/b/../../g", "a/b/../../../outside/f", "a/lk/f", "b/lk", "c/g", "sub/", "lk/", "a/b/c/../../lk/g",
}

// victims are the names that the attacker changes.
var victims = []string{"a", "b", "c", "f", "g", "sub", "lk", "a/b", "a/lk", "a/f", "b/lk", "b/c", "a/b/c"}

// targets of links that the attacker makes; %s is the root.
var targets = []string{"../outside", "../../outside", "../../../outside", "%s/../outside", "%s/../outside/f", "../outside/f", "../outside/sub", "..", "../..", ".",
	"a", "b/c", "lk", "../root/a"}

// tree does to names below a directory what is asked, and never leaves it: the
// attacker has no business outside.
type tree struct{ fd int }

func openTree(root string) (tree, error) {
	fd, err := unix.Open(root, unix.O_PATH|unix.O_DIRECTORY|unix.O_CLOEXEC, 0)
	return tree{fd}, err
}

// at calls f with the directory of a name, if it leads there without links and
// mounts.
func (t tree) at(name string, f func(dir int, leaf string) error) error {
	how := unix.OpenHow{Flags: unix.O_PATH | unix.O_DIRECTORY | unix.O_CLOEXEC,
		Resolve: unix.RESOLVE_BENEATH | unix.RESOLVE_NO_SYMLINKS | unix.RESOLVE_NO_XDEV}
	parent, leaf := path.Split(name)
	dir, err := unix.Openat2(t.fd, "./"+parent, &how)
	if err != nil {
		return err
	}
	defer unix.Close(dir)
	return f(dir, leaf)
}

func (t tree) rename(from, to string, flags uint) error {
	return t.at(from, func(d1 int, l1 string) error {
		return t.at(to, func(d2 int, l2 string) error { return unix.Renameat2(d1, l1, d2, l2, flags) })
	})
}

// lend gives a name to the spare object and takes it back.
func (t tree) lend(victim string) {
	if t.rename(spare, victim, unix.RENAME_EXCHANGE) == nil {
		t.rename(spare, victim, unix.RENAME_EXCHANGE)
	}
	t.at(spare, func(dir int, leaf string) error { return unix.Unlinkat(dir, leaf, 0) })
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

const spare = "spare"

// assault changes the tree until it is killed, and mounts a directory in it.
func assault(root, mounted string) error {
	t, err := openTree(root)
	if err != nil {
		return err
	}
	r := rand.New(rand.NewPCG(uint64(os.Getpid()), 0))
	pick := func() string { return victims[r.IntN(len(victims))] }
	for {
		switch victim := pick(); r.IntN(9) {
		case 0, 1, 2:
			target := targets[r.IntN(len(targets))]
			if target[0] == '%' {
				target = fmt.Sprintf(target, root)
			}
			t.at(spare, func(dir int, leaf string) error { return unix.Symlinkat(target, dir, leaf) })
			t.lend(victim)
		case 3:
			t.rename(victim, pick(), unix.RENAME_EXCHANGE)
		case 4:
			t.rename(victim, pick(), unix.RENAME_NOREPLACE)
		case 5:
			t.at(spare, func(dir int, leaf string) error { return unix.Mkfifoat(dir, leaf, 0o666) })
			t.lend(victim)
		case 6:
			t.at("f", func(dir int, leaf string) error { return unix.Linkat(dir, leaf, dir, "f2", 0) })
			t.rename("f2", "g", 0)
		case 7:
			if mounted != "" {
				t.at(victim+"/", func(dir int, _ string) error { return mountOver(mounted, dir) })
			}
		case 8:
			t.repair()
		}
	}
}
