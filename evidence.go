package caproot

import (
	"cmp"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"hash"

	"github.com/caproot/caproot/identity"
	"github.com/caproot/caproot/pathsafe"
)

var (
	verbReceipt = verb{name: "receipt", needs: List, traced: true}
	verbCheck   = verb{name: "check", needs: List, traced: true}
)

// Evidence asks a receipt for more than it has by itself.
type Evidence uint8

const (
	// WithDigest reads the whole file for its SHA-256. It needs the right Read.
	WithDigest Evidence = 1 << iota
	// WithAncestry identifies every directory between the root and the object.
	WithAncestry
)

// telling is what a verb knows of the object it settled, for the receipt.
type telling struct {
	op        string
	object    handle
	published identity.Publication
	asked     Durability
	achieved  Durability
	lost      []string
	digest    string
	ancestry  bool
}

// tell writes the receipt of the object that the place names. With an error it
// has only what the call knew already: how the object was published.
func (c *call) tell(t *telling) (identity.Receipt, error) {
	receipt := identity.Receipt{
		Op: t.op, Path: cmp.Or(c.reached(), "."), SHA256: t.digest, Containment: c.containment,
		Durability: t.achieved, Asked: t.asked, Published: t.published, Lost: t.lost,
	}
	st, err := c.r.sys.stat(t.object, "", false)
	if err != nil {
		return receipt, err
	}
	id, err := c.r.sys.identify(t.object)
	if err != nil {
		return receipt, err
	}
	root, err := c.r.self()
	if err != nil {
		return receipt, err
	}
	receipt.ID, receipt.Root = id, root
	receipt.Size, receipt.Mode, receipt.Nlink, receipt.ModTime = st.size, st.mode, st.nlink, st.mtime.time()
	if t.ancestry {
		receipt.Ancestry, err = c.ancestry()
	}
	return receipt, err
}

// ancestry identifies the directories of the canonical parent path. It returns
// ErrChanged when they no longer lead to the place.
func (c *call) ancestry() (ids []identity.ID, err error) {
	w := c.walker()
	w.links = LinksRefuse
	defer w.close()
	p := c.r.policy.Names
	for name, rest := pathsafe.Next(c.parent, p); name != ""; name, rest = pathsafe.Next(rest, p) {
		if err := w.enter(name); err != nil {
			return nil, because(ErrChanged, "a directory of the path was replaced")
		}
		id, err := c.r.sys.identify(w.here())
		if err != nil {
			return nil, err
		}
		ids = append(ids, id)
	}
	end, err := c.r.sys.stat(w.here(), "", false)
	place, perr := c.r.sys.stat(c.dir, "", false)
	if err := errors.Join(err, perr); err != nil {
		return nil, err
	}
	if !end.sameNumbers(&place) {
		return nil, because(ErrChanged, "a directory of the path was replaced")
	}
	return ids, nil
}

// Receipt describes the object that name leads to, links followed as by Stat.
func (r *Root) Receipt(name string, with ...Evidence) (identity.Receipt, error) {
	var c call
	if err := c.begin(r, &verbReceipt, name); err != nil {
		return identity.Receipt{}, err
	}
	defer c.end()
	var want Evidence
	for _, w := range with {
		want |= w
	}
	receipt, err := c.observe(want)
	if err != nil {
		return identity.Receipt{}, c.fail(err)
	}
	return receipt, nil
}

func (c *call) observe(want Evidence) (receipt identity.Receipt, err error) {
	if err := want.valid(); err != nil {
		return receipt, err
	}
	if err := c.toObject(); err != nil {
		return receipt, err
	}
	h, err := c.openLeaf(pathOnly)
	if err != nil {
		return receipt, err
	}
	defer func() { c.r.sys.close(h) }()
	st, err := c.r.sys.stat(h, "", false)
	switch {
	case err != nil:
	case st.isLink():
		err = ErrSymlink
	case c.shape.MustDir && !st.isDir():
		err = errNotDir
	}
	if err != nil {
		return receipt, err
	}
	t := telling{op: "receipt", object: h, ancestry: want&WithAncestry != 0}
	if want&WithDigest != 0 && st.isRegular() {
		if t.digest, err = c.digestOf(c.leaf, &st); err != nil {
			return receipt, err
		}
	}
	return c.tell(&t)
}

// toDirectory makes the directory that the whole name leads to the place, with
// "." for its leaf.
func (c *call) toDirectory() error {
	w := c.walker()
	if err := c.walkTo(&w, c.shape.Path); err != nil {
		return err
	}
	c.leaf = "."
	return nil
}

// openLeaf opens the leaf of the place, which no link stands for and no mount
// covers where the policy stays on the mount.
func (c *call) openLeaf(how openHow) (handle, error) {
	h, err := c.r.sys.open(c.dir, c.leaf, how, 0)
	if err != nil {
		return noHandle, err
	}
	if c.r.policy.Mounts == MountsStay {
		w := c.walker()
		if err := w.checkMount(h); err != nil {
			c.r.sys.close(h)
			return noHandle, err
		}
	}
	return h, nil
}

// digestOf reads what name holds in the place, which must be the object want.
func (c *call) digestOf(name string, want *status) (string, error) {
	if c.r.policy.Rights&Read == 0 {
		return "", because(ErrPolicy, "a digest needs Read")
	}
	if want.size > c.r.policy.MaxReadBytes {
		return "", ErrTooLarge
	}
	file, err := c.r.sys.open(c.dir, name, forRead|nonBlocking, 0)
	if err != nil {
		return "", err
	}
	defer c.r.sys.close(file)
	st, err := c.r.sys.stat(file, "", false)
	if err == nil && !st.sameNumbers(want) {
		err = because(ErrChanged, "replaced while it was read")
	}
	if err == nil {
		err = c.admitRead(&st)
	}
	if err != nil {
		return "", err
	}
	return digest(c.r.sys, file, c.r.policy.MaxReadBytes)
}

func digest(sys system, file handle, limit int64) (string, error) {
	sum, total := sha256.New(), int64(0)
	buf := make([]byte, copyBytes)
	for {
		n, err := sys.read(file, buf)
		if err != nil {
			return "", err
		}
		if n == 0 {
			return hexSum(sum), nil
		}
		if total += int64(n); total > limit {
			return "", ErrTooLarge
		}
		sum.Write(buf[:n])
	}
}

func hexSum(h hash.Hash) string { return hex.EncodeToString(h.Sum(nil)) }

// MismatchError tells why an object is not, or may not be, the one of a
// receipt. It matches ErrChanged.
type MismatchError struct {
	Verdict identity.Verdict // Different or Unknown
	Reason  identity.Reason
}

func (e *MismatchError) Error() string {
	if e.Verdict == identity.Unknown {
		return "cannot be proved to be the expected object: " + string(e.Reason)
	}
	return "not the expected object: " + string(e.Reason)
}

// Is makes a mismatch match ErrChanged.
func (e *MismatchError) Is(target error) bool { return target == ErrChanged }

// Check compares what want.Path names now with the receipt: identity and size,
// and the content if the receipt has a digest. It returns a *MismatchError,
// which matches ErrChanged, when the object is another one or cannot be proved
// to be the same, and an error that matches fs.ErrNotExist when nothing is there.
func (r *Root) Check(want identity.Receipt) error {
	var c call
	if err := c.begin(r, &verbCheck, want.Path); err != nil {
		return err
	}
	defer c.end()
	var with Evidence
	if want.SHA256 != "" {
		with = WithDigest
	}
	now, err := c.observe(with)
	if err == nil {
		err = mismatch(want.Compare(now))
	}
	return c.fail(err)
}

func mismatch(v identity.Verdict, why identity.Reason) error {
	if v == identity.Same {
		return nil
	}
	return &MismatchError{Verdict: v, Reason: why}
}

// expect compares an open object, which name holds in the place, with a
// receipt: identity, size, and the content if the receipt has a digest.
func (c *call) expect(want *identity.Receipt, object handle, name string) error {
	id, err := c.r.sys.identify(object)
	if err != nil {
		return err
	}
	st, err := c.r.sys.stat(object, "", false)
	if err != nil {
		return err
	}
	now := identity.Receipt{ID: id, Size: st.size, Mode: st.mode}
	if err := mismatch(want.Compare(now)); err != nil || want.SHA256 == "" || !st.isRegular() {
		return err
	}
	if now.SHA256, err = c.digestOf(name, &st); err != nil {
		return err
	}
	return mismatch(want.Compare(now))
}

// syncFile flushes content as d asks.
func (c *call) syncFile(file handle, d Durability, lost *[]string) error {
	if d > DurabilityFile {
		return nil
	}
	return told(c.r.sys.sync(file), lost)
}

// syncDir flushes the directory dir as d asks and returns what was achieved. A
// file system that cannot flush directories is no failure, and is reported.
func (c *call) syncDir(dir handle, d Durability, lost *[]string) (Durability, error) {
	if d != DurabilityDir {
		return d, nil
	}
	err := told(c.r.sys.sync(dir), lost)
	if err == nil {
		return DurabilityDir, nil
	}
	if !noDirSync(err) {
		return DurabilityFile, published(err)
	}
	note(lost, "dir-sync")
	return DurabilityFile, nil
}

// published marks a failure after the new content had its name.
func published(err error) error { return &detail{errPublished, err.Error(), err} }

var errPublished = errors.New("published all the same")

// durability is what a call gets that asked for d.
func (c *call) durability(d Durability) Durability {
	least := c.r.policy.Durability.OrDir()
	if d == DurabilityDefault {
		return least
	}
	return min(d, least)
}
