package caproot

import (
	"errors"
	"os"
	"syscall"
	"testing"
)

// case 9: an absolute link is an escape and a relative one a link, whichever verb
// meets it and wherever it stands.
func TestAbsoluteLinkIsEscape(t *testing.T) {
	parents := Workspace()
	parents.Links = LinksFollowParents
	extract := Extract()
	extract.Rights |= Read | List
	for _, p := range []Policy{extract, parents} {
		eachResolver(t, p, func(t *testing.T, r *Root, base string) {
			must(t, os.MkdirAll(base+"/root/way", 0o755))
			for _, dir := range []string{"", "way/"} {
				must(t, os.Symlink("/etc/hostname", base+"/root/"+dir+"absolute"))
				must(t, os.Symlink("nothing", base+"/root/"+dir+"relative"))
				for link, cause := range map[string]error{dir + "absolute": ErrEscape, dir + "relative": ErrSymlink} {
					_, err := r.Stat(link)
					want(t, "Stat "+link, err, cause)
					_, err = r.Exists(link)
					want(t, "Exists "+link, err, cause)
					_, err = r.ReadFile(link)
					want(t, "ReadFile "+link, err, cause)
				}
			}
		})
	}
}

// O_CREATE with O_DIRECTORY makes nothing, and what is wrong with the way is told
// first, as by os.Root.
func TestCreateDirectoryIsRefused(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		o, err := os.OpenRoot(base + "/root")
		must(t, err)
		defer o.Close()
		must(t, os.Mkdir(base+"/root/is", 0o755))
		must(t, os.Symlink("../outside", base+"/root/leaves"))
		for name, cause := range map[string]error{
			"../x": ErrEscape, "leaves/x": ErrEscape, "none/x": syscall.ENOENT, "x": syscall.EINVAL, "is": syscall.EINVAL, ".": syscall.EINVAL,
		} {
			_, err := r.OpenFile(name, os.O_RDONLY|os.O_CREATE|syscall.O_DIRECTORY, 0o644)
			want(t, "OpenFile "+name, err, cause)
			_, theirs := o.OpenFile(name, os.O_RDONLY|os.O_CREATE|syscall.O_DIRECTORY, 0o644)
			if (errorClass(theirs) == "escape") != errors.Is(err, ErrEscape) || errors.Is(theirs, syscall.ENOENT) != errors.Is(err, syscall.ENOENT) {
				t.Errorf("%s: os.Root says %v, ours %v", name, theirs, err)
			}
		}
		if _, err := os.Lstat(base + "/root/x"); !errors.Is(err, os.ErrNotExist) {
			t.Errorf("x was made (%v)", err)
		}
	})
}

// A link whose text ends in "/" is followed before it is refused as a directory:
// the answers of an open that may make a file are those of os.Root.
func TestCreatingThroughSlashedLink(t *testing.T) {
	eachResolver(t, Compat(), func(t *testing.T, r *Root, base string) {
		o, err := os.OpenRoot(base + "/root")
		must(t, err)
		defer o.Close()
		must(t, os.Mkdir(base+"/root/is", 0o755))
		must(t, os.WriteFile(base+"/root/file", nil, 0o644))
		for link, text := range map[string]string{"itself": "itself/", "twice": "once", "once": "twice/", "toDir": "is/", "toFile": "file/"} {
			must(t, os.Symlink(text, base+"/root/"+link))
		}
		for link, cause := range map[string]error{
			"itself": syscall.ELOOP, "twice": syscall.ELOOP, "once": syscall.ELOOP, "toDir": syscall.EISDIR, "toFile": syscall.ENOTDIR,
		} {
			want(t, "WriteFile "+link, r.WriteFile(link, nil, 0o644), cause)
			_, err := r.OpenFile(link, os.O_RDONLY|os.O_CREATE, 0o644)
			want(t, "OpenFile "+link, err, cause)
			want(t, "os.Root.WriteFile "+link, o.WriteFile(link, nil, 0o644), cause)
		}
	})
}
