package identity_test

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"runtime"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/caproot/caproot/identity"
	"golang.org/x/sys/unix"
)

// look gathers the evidence that the system has for path, generation and handle
// both, and fails the test where even the numbers are missing.
func look(t *testing.T, path string) identity.Receipt {
	t.Helper()
	var stx unix.Statx_t
	const mask = unix.STATX_BASIC_STATS | unix.STATX_BTIME | unix.STATX_MNT_ID_UNIQUE
	if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, mask, &stx); err != nil {
		t.Fatal(err)
	}
	info, err := os.Lstat(path)
	if err != nil {
		t.Fatal(err)
	}
	id := identity.ID{Dev: unix.Mkdev(stx.Dev_major, stx.Dev_minor), Ino: stx.Ino, Type: info.Mode().Type()}
	if stx.Mask&unix.STATX_MNT_ID_UNIQUE != 0 {
		id.Mount = stx.Mnt_id
	}
	if stx.Mask&unix.STATX_BTIME != 0 {
		id.Birth, id.HasBirth = stx.Btime.Sec*1e9+int64(stx.Btime.Nsec), true
	}
	const fid = 0x200 // AT_HANDLE_FID, Linux 6.5
	for _, flags := range []int{0, fid} {
		if h, _, err := unix.NameToHandleAt(unix.AT_FDCWD, path, flags); err == nil {
			id.Handle = string(append(binary.BigEndian.AppendUint32(nil, uint32(h.Type())), h.Bytes()...))
			break
		}
	}
	if gen, err := generation(t, path, unix.O_RDONLY); err == nil {
		id.Gen, id.HasGen = gen, true
	}
	return identity.Receipt{ID: id, Size: info.Size(), Mode: info.Mode(), ModTime: info.ModTime()}
}

// generation asks FS_IOC_GETVERSION, _IOR('v', 1, long) of linux/fs.h.
func generation(t *testing.T, path string, how int) (uint64, error) {
	t.Helper()
	fd, err := unix.Open(path, how|unix.O_CLOEXEC|unix.O_NONBLOCK|unix.O_NOFOLLOW, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer unix.Close(fd)
	const request = 2<<30 | unsafe.Sizeof(uintptr(0))<<16 | 'v'<<8 | 1
	var gen uint32
	if _, _, errno := unix.Syscall(unix.SYS_IOCTL, uintptr(fd), request, uintptr(unsafe.Pointer(&gen))); errno != 0 {
		return 0, errno
	}
	return uint64(gen), nil
}

// on returns a new directory on a file system of the magic number, below one of
// the places.
func on(t *testing.T, magic int64, places ...string) string {
	t.Helper()
	for _, place := range places {
		var st unix.Statfs_t
		if err := unix.Statfs(place, &st); err != nil || int64(st.Type) != magic {
			continue
		}
		dir, err := os.MkdirTemp(place, "identity-test-*")
		if err != nil {
			continue
		}
		t.Cleanup(func() { os.RemoveAll(dir) })
		return dir
	}
	t.Skipf("none of %q is writable and on a file system of type %#x", places, magic)
	return ""
}

func ext4(t *testing.T) string  { return on(t, unix.EXT4_SUPER_MAGIC, os.TempDir(), ".") }
func tmpfs(t *testing.T) string { return on(t, unix.TMPFS_MAGIC, "/dev/shm", os.TempDir()) }

func write(t *testing.T, path, text string) {
	t.Helper()
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// recreate gives path to a new object of the same name, size and times.
func recreate(t *testing.T, path string, at time.Time) {
	t.Helper()
	if err := os.Remove(path); err != nil {
		t.Fatal(err)
	}
	write(t, path, "same size")
	if err := os.Chtimes(path, at, at); err != nil {
		t.Fatal(err)
	}
}

// less are the kinds of evidence that a weaker system would give.
var less = map[string]func(*identity.ID){
	"whole":             func(*identity.ID) {},
	"generation, birth": func(id *identity.ID) { id.Handle = "" },
	"handle":            func(id *identity.ID) { id.HasGen, id.HasBirth = false, false },
	"birth":             func(id *identity.ID) { id.Handle, id.HasGen = "", false },
	"numbers":           func(id *identity.ID) { id.Handle, id.HasGen, id.HasBirth = "", false, false },
}

// tally re-creates a file in dir again and again and counts the verdicts by kind
// of evidence, and how often the new object had the number of the old.
func tally(t *testing.T, dir string, rounds int) (counts map[string]map[identity.Verdict]int, reused int) {
	t.Helper()
	path, at := filepath.Join(dir, "name"), time.Unix(1700000000, 0)
	write(t, path, "same size")
	counts = map[string]map[identity.Verdict]int{}
	for range rounds {
		before := look(t, path)
		recreate(t, path, at)
		after := look(t, path)
		if after.ID.Ino == before.ID.Ino {
			reused++
		}
		for name, weaken := range less {
			b, a := before, after
			weaken(&b.ID)
			weaken(&a.ID)
			v, _ := b.Compare(a)
			if counts[name] == nil {
				counts[name] = map[identity.Verdict]int{}
			}
			counts[name][v]++
		}
	}
	return counts, reused
}

// Cases 68 and 78: unlink and creation of the same name, size and times.
func TestRecreatedOnExt4(t *testing.T) {
	const rounds = 200
	counts, reused := tally(t, ext4(t), rounds)
	t.Logf("%d of %d numbers used again; %v", reused, rounds, counts)
	for _, name := range []string{"whole", "handle", "generation, birth"} {
		if counts[name][identity.Different] != rounds {
			t.Errorf("%s: %v, want %d Different", name, counts[name], rounds)
		}
	}
	for name := range less {
		if counts[name][identity.Same] != 0 {
			t.Errorf("%s: %v, want none Same", name, counts[name])
		}
	}
	if reused == 0 {
		t.Skip("the file system used no number again: nothing shown")
	}
	if got := counts["numbers"][identity.Unknown]; got != reused {
		t.Errorf("numbers: %d Unknown, want the %d that were used again", got, reused)
	}
}

func TestRecreatedOnTmpfs(t *testing.T) {
	neverSame(t, tmpfs(t))
}

func neverSame(t *testing.T, dir string) {
	t.Helper()
	counts, reused := tally(t, dir, 50)
	t.Logf("%d of 50 numbers used again; %v", reused, counts)
	for name := range less {
		if counts[name][identity.Same] != 0 {
			t.Errorf("%s: %v, want none Same", name, counts[name])
		}
	}
}

// What happens to an object without its being replaced leaves it the same.
// Case 79: every step moves the change time.
func TestSameObject(t *testing.T) {
	for name, place := range map[string]func(*testing.T) string{"ext4": ext4, "tmpfs": tmpfs} {
		t.Run(name, func(t *testing.T) {
			dir := place(t)
			path, aside := filepath.Join(dir, "name"), filepath.Join(dir, "aside")
			write(t, path, "same size")
			before := look(t, path)
			for _, step := range []struct {
				name string
				do   func() error
			}{
				{"look", func() error { return nil }},
				{"open", func() error { f, err := os.Open(path); return errors.Join(err, f.Close()) }},
				{"chmod", func() error { return os.Chmod(path, 0o640) }},
				{"write", func() error { return os.WriteFile(path, []byte("SAME SIZE"), 0) }},
				{"times", func() error { return os.Chtimes(path, time.Unix(1, 0), time.Unix(1, 0)) }},
				{"link", func() error { return os.Link(path, aside) }},
				{"rename", func() error { return errors.Join(os.Remove(aside), os.Rename(path, aside), os.Rename(aside, path)) }},
			} {
				if err := step.do(); err != nil {
					t.Fatal(step.name, err)
				}
				if v, why := before.Compare(look(t, path)); v != identity.Same {
					t.Errorf("after %s: %v, %s", step.name, v, why)
				}
			}
			write(t, path, "longer than it was")
			if v, why := before.Compare(look(t, path)); v != identity.Different || why != identity.BySize {
				t.Errorf("after growth: %v, %s", v, why)
			}
		})
	}
}

func TestTwoObjects(t *testing.T) {
	dir := ext4(t)
	a, b := filepath.Join(dir, "a"), filepath.Join(dir, "b")
	write(t, a, "text")
	if err := os.Mkdir(b, 0o700); err != nil {
		t.Fatal(err)
	}
	if v, why := look(t, a).Compare(look(t, b)); v != identity.Different || why != identity.ByFileNumber {
		t.Errorf("%v, %s", v, why)
	}
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	if err := os.Link(a, b); err != nil {
		t.Fatal(err)
	}
	if v, why := look(t, a).Compare(look(t, b)); v != identity.Same {
		t.Errorf("two names of one object: %v, %s", v, why)
	}
}

// Case 69: where the ioctl is missing, the generation is unknown and not 0.
func TestGenerationMayBeMissing(t *testing.T) {
	path := filepath.Join(tmpfs(t), "name")
	write(t, path, "text")
	if gen, err := generation(t, path, unix.O_RDONLY); err != syscall.ENOTTY {
		t.Errorf("generation on tmpfs: %d, %v, want ENOTTY", gen, err)
	}
	r := look(t, path)
	r.ID.Handle = ""
	if v, why := r.Compare(r); v != identity.Unknown || why != identity.ReusableNumber {
		t.Errorf("without generation and handle: %v, %s", v, why)
	}
	path = filepath.Join(ext4(t), "name")
	write(t, path, "text")
	if gen, err := generation(t, path, unix.O_PATH); err != syscall.EBADF {
		t.Errorf("generation through O_PATH: %d, %v, want EBADF", gen, err)
	}
}

// namespace moves the test into a mount namespace of its own. The thread stays
// locked to the test's goroutine and ends with it.
func namespace(t *testing.T) {
	t.Helper()
	runtime.LockOSThread()
	if err := unix.Unshare(unix.CLONE_NEWNS); err != nil {
		t.Skip("no mount namespace for this user: ", err)
	}
	if err := unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""); err != nil {
		t.Skip("no private mounts for this user: ", err)
	}
}

func mount(t *testing.T, source, target, kind string, flags uintptr, data string) {
	t.Helper()
	if err := unix.Mount(source, target, kind, flags, data); err != nil {
		t.Skipf("cannot mount %s here: %v", kind, err)
	}
	t.Cleanup(func() {
		if err := unix.Unmount(target, unix.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
}

// mkdirs makes directories below dir and returns their paths.
func mkdirs(t *testing.T, dir string, names ...string) (paths []string) {
	t.Helper()
	for _, name := range names {
		path := filepath.Join(dir, name)
		if err := os.Mkdir(path, 0o700); err != nil {
			t.Fatal(err)
		}
		paths = append(paths, path)
	}
	return paths
}

// Case 75 with one object: a bind mount is another mount of it.
func TestBindMount(t *testing.T) {
	dirs := mkdirs(t, ext4(t), "dir", "bound")
	path := filepath.Join(dirs[0], "name")
	write(t, path, "text")
	namespace(t)
	mount(t, dirs[0], dirs[1], "bind", unix.MS_BIND, "")
	direct, bound := look(t, path), look(t, filepath.Join(dirs[1], "name"))
	if direct.ID.Mount == 0 {
		t.Skip("no unique mount ids before Linux 6.8")
	}
	if direct.ID.Mount == bound.ID.Mount {
		t.Fatal("the bind mount has the mount id of what it shows")
	}
	if v, why := direct.Compare(bound); v != identity.Same || why != identity.ProofHandle {
		t.Errorf("%v, %s", v, why)
	}
	bound.ID.HasBirth = false
	if v, why := direct.Compare(bound); v != identity.Unknown || why != identity.OtherMount {
		t.Errorf("without birth time: %v, %s", v, why)
	}
}

func TestRecreatedOnOverlay(t *testing.T) {
	lower, upper := ext4(t), ext4(t)
	layers := append(mkdirs(t, lower, "lower"), mkdirs(t, upper, "upper", "work", "merged")...)
	write(t, filepath.Join(layers[0], "below"), "text")
	namespace(t)
	mount(t, "overlay", layers[3], "overlay", 0, "lowerdir="+layers[0]+",upperdir="+layers[1]+",workdir="+layers[2])
	neverSame(t, layers[3])

	// The first write copies the file up into a new object, as documented.
	path := filepath.Join(layers[3], "below")
	before := look(t, path)
	write(t, path, "TEXT")
	after := look(t, path)
	if !before.ID.HasBirth || !after.ID.HasBirth {
		t.Skip("no birth times below this overlay")
	}
	if v, why := before.Compare(after); v != identity.Different {
		t.Errorf("copied up: %v, %s, want what the package documentation says", v, why)
	}
}

// A file system without generations gives handles all the same. They are no proof.
func TestHandleWithoutGeneration(t *testing.T) {
	dir := mkdirs(t, t.TempDir(), "ram")[0]
	namespace(t)
	mount(t, "ramfs", dir, "ramfs", 0, "")
	neverSame(t, dir)
	r := look(t, filepath.Join(dir, "name"))
	if r.ID.Handle == "" {
		t.Skip("no handle for ramfs before Linux 6.7")
	}
	if v, why := r.Compare(r); v != identity.Unknown || why != identity.ReusableNumber {
		t.Errorf("%v, %s of handle %x", v, why, r.ID.Handle)
	}
}
