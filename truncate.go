package caproot

// Truncate changes the size of a file.
func (r *Root) Truncate(name string, size int64) error {
	var c call
	if err := c.begin(r, &verbTruncate, name); err != nil {
		return err
	}
	defer c.end()
	if size > r.policy.MaxWriteBytes {
		return c.fail(ErrTooLarge)
	}
	h, _, err := c.openFile(forWrite, 0)
	if err != nil {
		return c.fail(err)
	}
	defer r.sys.close(h)
	return c.fail(c.truncate(h, size))
}

// truncate charges the growth.
func (c *call) truncate(h handle, size int64) error {
	if c.g != nil {
		st, err := c.r.sys.stat(h, "", false)
		if err == nil {
			err = c.spend(Budget{Bytes: max(0, size-st.size)})
		}
		if err != nil {
			return err
		}
	}
	err := c.r.sys.truncate(h, size)
	c.settleSpent(err == nil)
	return err
}
