package caproot

import (
	"errors"
	"io/fs"
	"path/filepath"
	"strings"
	"syscall"

	"github.com/caproot/caproot/pathsafe"
)

// errNotLink is follow's answer when the name is no link.
var errNotLink = errors.New("not a symbolic link")

// follow puts the target of the link name in front of what is left to walk.
func (w *walker) follow(name string) error {
	if err := w.admitName(name); err != nil {
		return err
	}
	target, err := w.sys.readlink(w.here(), name)
	if err != nil {
		if notALink(err) || errors.Is(err, fs.ErrNotExist) {
			return errNotLink
		}
		return err
	}
	absolute, err := pathsafe.Target(target, pathsafe.Host)
	switch {
	case err != nil:
		return nameError(err)
	case w.sys.magic(w.here(), target):
		return because(ErrEscape, "link leads where its text does not say")
	case absolute && w.links != LinksResolveInRoot:
		return because(ErrEscape, "symbolic link has an absolute target")
	case w.links == LinksRefuse:
		return ErrSymlink
	}
	if w.nlink++; w.nlink > maxLinks {
		return syscall.ELOOP
	}
	if err := admitText(target); err != nil {
		return err
	}
	target = filepath.ToSlash(target)
	if len(target)+1+len(w.rest) > maxPending {
		return syscall.ENAMETOOLONG
	}
	if absolute {
		w.unwind()
	}
	if !w.inTarget() {
		w.tail = len(w.rest) + 1
	}
	if next, _ := pathsafe.Next(w.rest, w.profile); next == "" {
		w.mustDir = w.mustDir || saysDirectory(target)
		w.rest = target
	} else {
		w.rest = target + "/" + w.rest
	}
	return nil
}

// admitText refuses the text of a link with a component that the system reads as
// more than a name. It is the system's own text: what the policy says of names is
// said of the caller's.
func admitText(target string) error {
	for name, rest := pathsafe.Next(target, pathsafe.Host); name != ""; name, rest = pathsafe.Next(rest, pathsafe.Host) {
		if name == ".." {
			continue
		}
		if err := pathsafe.Component(name, pathsafe.Host); err != nil {
			return nameError(err)
		}
	}
	return nil
}

// inTarget tells whether the component just taken is of a link's target, not of
// the caller's path. What a dangling link leads to is never made.
func (w *walker) inTarget() bool { return w.tail > 0 && len(w.rest)+1 >= w.tail }

// saysDirectory is true for a link target that only a directory can meet.
func saysDirectory(target string) bool {
	return strings.HasSuffix(target, "/") || strings.HasSuffix(target, "/.")
}
