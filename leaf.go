package caproot

import (
	"errors"
	"io/fs"
	"syscall"
)

func (c *call) walkOpen(how openHow, perm fs.FileMode) (handle, error) {
	w := c.walker()
	defer w.close()
	w.rest = c.shape.Path
	c.containment = Walked
	for range maxRaces {
		leaf, err := w.toLeaf()
		if err != nil {
			return noHandle, err
		}
		if leaf == "" {
			leaf = "."
		}
		h, err := w.openLeaf(leaf, how, perm)
		if err != errFollowed {
			return h, err
		}
	}
	return noHandle, ErrUnstable
}

// errFollowed is openLeaf's answer when there is more to walk.
var errFollowed = errors.New("link followed")

// openLeaf opens the last component, or splices it in when it is a link that
// the call follows.
func (w *walker) openLeaf(leaf string, how openHow, perm fs.FileMode) (handle, error) {
	if w.mustDir {
		if how&creating != 0 {
			return w.openNoFile(leaf, how)
		}
		how |= directoryOnly
	}
	reserved := error(nil)
	if how&creating != 0 {
		if reserved = unreserved(leaf); reserved != nil {
			how &^= creating | exclusive // a link led here
		}
	}
	h, err := w.sys.open(w.here(), leaf, how&^followLeaf, perm)
	switch {
	case reserved != nil && errors.Is(err, fs.ErrNotExist):
		return noHandle, reserved
	case err == nil && how&pathOnly != 0 && how&followLeaf != 0:
		st, serr := w.sys.stat(h, "", false)
		if serr == nil && !st.isLink() {
			break
		}
		w.sys.close(h)
		if serr != nil {
			return noHandle, serr
		}
		return noHandle, w.followLeaf(leaf, how, syscall.ELOOP)
	case err != nil && maybeLink(err):
		return noHandle, w.followLeaf(leaf, how, err)
	case err != nil:
		return noHandle, err
	}
	if w.stay {
		if err := w.checkMount(h); err != nil {
			w.sys.close(h)
			return noHandle, err
		}
	}
	return h, nil
}

// openNoFile is openLeaf for a file to make where a link's text allows only a
// directory. Nothing is made: O_CREAT with O_DIRECTORY made a file before Linux 6.4.
func (w *walker) openNoFile(leaf string, how openHow) (handle, error) {
	h, err := w.sys.openDir(w.here(), leaf)
	switch {
	case err == nil:
		w.sys.close(h)
		return noHandle, syscall.EISDIR
	case errors.Is(err, fs.ErrNotExist):
		return noHandle, syscall.EISDIR
	case maybeLink(err):
		return noHandle, w.followLeaf(leaf, how, err)
	}
	return noHandle, err
}

func (w *walker) followLeaf(leaf string, how openHow, cause error) error {
	rule := w.links
	if how&followLeaf == 0 {
		w.links = LinksRefuse
	}
	err := w.follow(leaf)
	w.links = rule
	switch {
	case err == nil:
		return errFollowed
	case err != errNotLink:
		return err
	case cause == syscall.ELOOP:
		// It was a link a moment ago.
		w.rest = leaf
		return errFollowed
	}
	return cause
}

// refusedLink tells why the link that the place names is not followed.
func (c *call) refusedLink() error {
	w := c.walker()
	defer w.close()
	w.root, w.deny = c.dir, nil
	return w.followLeaf(c.leaf, 0, ErrSymlink)
}
