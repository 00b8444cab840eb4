package nt

import "strings"

// Where the name begins in the two records of a listing that are read, of ntifs.h.
// What stands before offset 68 is the same in both.
const (
	NameInIDBothDir = 104 // FILE_ID_BOTH_DIR_INFORMATION
	NameInFullDir   = 68  // FILE_FULL_DIR_INFORMATION
)

// Entry is one name of a directory.
type Entry struct {
	Name       string
	Attributes uint32
	Tag        uint32 // of a reparse point
}

const attributeReparsePoint = 0x400

// Entries reads a buffer of entries, without "." and "..". It returns ErrData for
// offsets that lead nowhere, and for a name that no entry can have: one with a
// separator would lead elsewhere when it is opened.
func Entries(buf []byte, nameAt int) (entries []Entry, err error) {
	for {
		if len(buf) < nameAt {
			return nil, ErrData
		}
		next, length := uint64(little.Uint32(buf)), uint64(little.Uint32(buf[60:]))
		end := uint64(nameAt) + length
		if length%2 != 0 || end > uint64(len(buf)) || next != 0 && (next < end || next > uint64(len(buf))) {
			return nil, ErrData
		}
		e := Entry{Name: decode(buf[nameAt:end]), Attributes: little.Uint32(buf[56:])}
		if e.Attributes&attributeReparsePoint != 0 {
			e.Tag = little.Uint32(buf[64:])
		}
		switch {
		case e.Name == "." || e.Name == "..":
		case e.Name == "" || strings.ContainsAny(e.Name, "\\/\x00"):
			return nil, ErrData
		default:
			entries = append(entries, e)
		}
		if next == 0 {
			return entries, nil
		}
		buf = buf[next:]
	}
}
