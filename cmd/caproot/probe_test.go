package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/caproot/caproot"
)

func TestProbe(t *testing.T) {
	_, root := tree(t)
	var f findings
	got := caprootRun(t, "", "probe", "--json", root)
	must(t, json.Unmarshal([]byte(got.out), &f))
	told, linux := map[string]answer{}, true
	var order []string
	for _, one := range f.Features {
		told[one.Feature] = one.Here
		order = append(order, one.Feature)
		linux = linux && one.Why != "Linux only"
		untried := !linux && one.Here == unknown && one.Why == "not tried"
		if one.Here == unknown && !untried || (one.Here == here) != (one.Why == "") {
			t.Errorf("%+v: nothing hinders the probe here", one)
		}
	}
	if diff := cmp.Diff(features, order); diff != "" {
		t.Errorf("features (-want +got):\n%s", diff)
	}
	// What the probe says of names and links must hold here.
	if _, err := os.Lstat(filepath.Join(root, "F")); (err == nil) != (told["case-folding"] == here) {
		t.Errorf("case folding is told as %s; %v", told["case-folding"], err)
	}
	for feature, try := range map[string]func() error{
		"symlink": func() error {
			// Wine says yes and makes nothing.
			made := os.Symlink("f", filepath.Join(root, "s"))
			_, err := os.Lstat(filepath.Join(root, "s"))
			return errors.Join(made, err)
		},
		"hardlink": func() error { return os.Link(filepath.Join(root, "f"), filepath.Join(root, "h")) },
	} {
		if err := try(); (err == nil) != (told[feature] == here) {
			t.Errorf("%s is told as %s; %v", feature, told[feature], err)
		}
	}
	if len(f.Verbs) < 20 || slices.ContainsFunc(f.Verbs, func(v verbFinding) bool {
		ofLinks := v.Verb == "symlink" || v.Verb == "readlink"
		return v.Containment == string(unknown) && (told["symlink"] == here || !ofLinks)
	}) {
		t.Errorf("verbs %+v", f.Verbs)
	}
	// The kernel's resolver is there, or every verb walks.
	for _, v := range f.Verbs {
		if v.Containment == caproot.KernelAtomic.String() && told["openat2"] != here {
			t.Errorf("%s without openat2: %s", v.Verb, v.Containment)
		}
	}
	checkNothingLeft(t, root)
}

func TestProbeRequire(t *testing.T) {
	f := findings{Features: []finding{{Feature: "flock", Here: here}, {Feature: "inotify", Here: missing}}}
	f.complete(fmt.Errorf("mkdir: %w", os.ErrPermission))
	for name, want := range map[string]int{"flock": exitDone, "inotify": exitNo, "landlock": exitRefused} {
		if got := exitOf(f.require(name)); got != want {
			t.Errorf("%s: exit %d, want %d", name, got, want)
		}
	}
	for _, one := range f.Features {
		if one.Feature == "landlock" && (one.Here != unknown || one.Why != "permission") {
			t.Errorf("%+v, want unknown for want of permission", one)
		}
	}
}
