package main

import (
	"crypto/sha256"
	"encoding/hex"
	"io/fs"
	"os"
	"slices"
	"time"
)

// seal is what is known of each object: its description, and a digest of its
// content or the text of a link.
type seal map[string][2]string

// longAgo is older than a day, so that reading a file moves its time of access
// also where a file system notes that once a day (relatime).
var longAgo = time.Date(2001, 2, 3, 4, 5, 6, 0, time.UTC)

// takeSeal describes everything that is sealed, with times of access that the
// next reader would move.
func takeSeal(base string) (seal, error) {
	s := seal{}
	paths := map[string]string{}
	err := sealed(base, func(path, name string) error {
		paths[name] = path
		one, err := describeObject(path)
		s[name] = one
		return err
	})
	if err != nil {
		return nil, err
	}
	for _, path := range paths {
		info, err := os.Lstat(path)
		if err == nil && info.Mode()&fs.ModeSymlink == 0 {
			err = os.Chtimes(path, longAgo, info.ModTime())
		}
		if err != nil {
			return nil, err
		}
	}
	for name, path := range paths {
		now, err := describeMeta(path)
		if err != nil {
			return nil, err
		}
		s[name] = [2]string{now, s[name][1]}
	}
	return s, nil
}

// describeObject describes before it reads, which moves the time of access.
func describeObject(path string) (one [2]string, err error) {
	if one[0], err = describeMeta(path); err != nil {
		return one, err
	}
	info, err := os.Lstat(path)
	switch {
	case err != nil:
	case info.Mode()&fs.ModeSymlink != 0:
		one[1], err = os.Readlink(path)
	case info.Mode().IsRegular():
		var data []byte
		data, err = os.ReadFile(path)
		sum := sha256.Sum256(data)
		one[1] = hex.EncodeToString(sum[:])
	}
	return one, err
}

// changes returns the names of what is not as it was, or came, or went.
func (s seal) changes(base string) (changed []string, err error) {
	left := len(s)
	err = sealed(base, func(path, name string) error {
		now, err := describeObject(path)
		was, known := s[name]
		if known {
			left--
		}
		if was != now {
			changed = append(changed, name)
		}
		return err
	})
	if err != nil || left == 0 {
		return changed, err
	}
	for name := range s {
		if _, err := os.Lstat(base + "/" + name); err != nil {
			changed = append(changed, name)
		}
	}
	slices.Sort(changed)
	return slices.Compact(changed), nil
}
