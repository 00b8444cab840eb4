//go:build !linux

package main

import "os"

// processFeatures knows what is Linux's own. The rest of a system's calls is
// tried through the library only.
func processFeatures() (found []finding) {
	for _, name := range []string{"openat2", "o-tmpfile", "linkat-empty-path", "file-handle", "mount-id", "inotify", "landlock"} {
		found = append(found, finding{Feature: name, Here: missing, Why: "Linux only"})
	}
	return found
}

func directoryFeatures(*os.File) []finding { return nil }
