package main

import (
	"runtime/debug"
	"strings"
)

// version is what the build recorded: the module's version, or of a build in a
// checkout the commit, and the version of Go.
func version() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "caproot, built without a record of its version"
	}
	words := []string{"caproot", info.Main.Version}
	for _, s := range info.Settings {
		switch {
		case s.Key == "vcs.revision":
			words = append(words, s.Value)
		case s.Key == "vcs.modified" && s.Value == "true":
			words = append(words, "modified")
		}
	}
	return strings.Join(append(words, info.GoVersion), " ")
}
