package nt

// NewName is FILE_RENAME_INFORMATION and FILE_LINK_INFORMATION of ntifs.h: flags, the
// handle of a directory, and a name in it. pointer is the size of a handle in bytes,
// 4 or 8. It returns ErrTooLong for a name that no file system has room for.
func NewName(flags uint32, dir uint64, name string, pointer int) ([]byte, error) {
	text := encode(name)
	if len(text) > 1<<16-2 {
		return nil, ErrTooLong
	}
	start := 2*pointer + 4
	// The kernel wants the size of the structure at least, which has room for one
	// unit of text and is aligned to a handle.
	least := (start + 2 + pointer - 1) / pointer * pointer
	buf := make([]byte, max(start+len(text), least))
	little.PutUint32(buf, flags)
	if pointer == 8 {
		little.PutUint64(buf[8:], dir)
	} else {
		little.PutUint32(buf[4:], uint32(dir))
	}
	little.PutUint32(buf[2*pointer:], uint32(len(text)))
	copy(buf[start:], text)
	return buf, nil
}
