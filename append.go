package caproot

import (
	"errors"
	"fmt"
	"io/fs"
	"syscall"

	"github.com/caproot/caproot/identity"
)

var verbAppend = verb{name: "append", changes: true, traced: true}

// AppendOptions are the options of Append.
type AppendOptions struct {
	// Mode is the exact mode of a file that Append makes, 0600 if zero.
	Mode fs.FileMode
	// Existing refuses to make a file.
	Existing   bool
	Durability Durability
}

// Append writes data at the end of a file in one write of the system, and
// makes the file if it is missing. A crash or a full disk may leave a part of
// the data at the end; the error then tells how much. It returns ErrTooLarge when
// the file would end beyond Policy.MaxWriteBytes, which parallel Appends may
// together pass: see there.
func (r *Root) Append(name string, data []byte, o AppendOptions) (identity.Receipt, error) {
	var c call
	if err := c.begin(r, &verbAppend, name); err != nil {
		return identity.Receipt{}, err
	}
	defer c.end()
	receipt, err := c.append(data, o)
	return receipt, c.fail(err)
}

func (c *call) append(data []byte, o AppendOptions) (receipt identity.Receipt, err error) {
	if err := o.valid(); err != nil {
		return receipt, err
	}
	mode, limit := o.Mode, c.r.policy.MaxWriteBytes
	if mode == 0 {
		mode = 0o600
	}
	if mode, err = c.exactMode(mode); err != nil {
		return receipt, err
	}
	// Before a file is made for it.
	if int64(len(data)) > limit {
		return receipt, ErrTooLarge
	}
	if err := c.spend(Budget{Bytes: int64(len(data))}); err != nil {
		return receipt, err
	}
	how := forWrite | appending
	if !o.Existing {
		how |= creating
	}
	h, err := c.openTraced(how, mode)
	if err != nil {
		return receipt, err
	}
	defer c.r.sys.close(h)
	st, err := c.r.sys.stat(h, "", false)
	if err != nil {
		return receipt, err
	}
	if int64(len(data)) > limit-st.size {
		return receipt, ErrTooLarge
	}
	n, err := writeAll(c.r.sys, h, data)
	c.settleWrite(n, len(data))
	if err != nil {
		return receipt, &detail{err, fmt.Sprintf("%d of %d bytes appended", n, len(data)), nil}
	}
	t := telling{op: "append", object: h, published: identity.InPlace, asked: c.durability(o.Durability)}
	if err := c.syncFile(h, t.asked, &t.lost); err != nil {
		return receipt, err
	}
	if t.achieved, err = c.syncDir(c.dir, t.asked, &t.lost); err != nil {
		return receipt, err
	}
	return c.tell(&t)
}

// openTraced opens for writing at a place, for verbs that give a receipt. A file
// that it makes has exactly the mode.
func (c *call) openTraced(how openHow, mode fs.FileMode) (handle, error) {
	asked := how
	how, err := c.writeRights(how)
	if err != nil {
		return noHandle, err
	}
	if c.shape.MustDir {
		return noHandle, syscall.EISDIR
	}
	if c.g == nil {
		if err := c.toTarget(); err != nil {
			return noHandle, err
		}
	}
	h, made, err := c.openOrMake(how|c.cautious(), mode)
	if err != nil {
		return noHandle, c.explainTraced(asked, how, err)
	}
	_, err = c.admitOpen(h, how)
	if err == nil && c.r.policy.Mounts == MountsStay {
		w := c.walker()
		err = w.checkMount(h)
	}
	if err == nil && made {
		var st status
		if st, err = c.r.sys.stat(h, "", false); err == nil {
			err = setMode(c.r.sys, h, st.mode&allModes, mode)
		}
	}
	if err != nil {
		c.r.sys.close(h)
		return noHandle, err
	}
	return h, nil
}

// explainTraced gives the error of an open at a place its cause.
func (c *call) explainTraced(asked, how openHow, err error) error {
	switch {
	case c.g != nil && !c.g.found:
		return err // the way there fails, as in toTarget
	case c.g != nil && err == errNotDir && c.shape.MustDir:
		return syscall.EISDIR // as in toTarget
	case c.g == nil:
		if err = c.linkExists(err); maybeLink(err) {
			err = c.refusedLink()
		}
	}
	return c.lacking(asked, how, c.explainLeaf(err))
}

// openOrMake opens the leaf or makes it, and knows which. On a grant it finds the
// place too.
func (c *call) openOrMake(how openHow, mode fs.FileMode) (h handle, made bool, err error) {
	if c.g != nil {
		h, err = c.openPlaced(how, mode)
		return h, c.g.made, err
	}
	for range maxRaces {
		if how&exclusive == 0 {
			h, err = c.r.sys.open(c.dir, c.leaf, how&^creating, 0)
			if how&creating == 0 || !errors.Is(err, fs.ErrNotExist) {
				return h, false, err
			}
		}
		if err = unreserved(c.leaf); err == nil {
			h, err = c.r.sys.open(c.dir, c.leaf, how|exclusive, mode)
		}
		if how&exclusive != 0 || !errors.Is(err, fs.ErrExist) {
			return h, true, err
		}
	}
	return noHandle, false, ErrUnstable
}

// explainLeaf is explainOpen for the leaf of a place.
func (c *call) explainLeaf(err error) error {
	if !maybeSpecial(err) {
		return err
	}
	if st, serr := c.r.sys.stat(c.dir, c.leaf, false); serr == nil && st.isSpecial() {
		return &detail{ErrSpecial, err.Error(), err}
	}
	return err
}
