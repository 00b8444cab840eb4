package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"time"

	"github.com/caproot/caproot"
)

// attempt is one way to get at what the plugin was not given.
type attempt struct {
	what, call string
	want       string // code of the refusal
	do         func(caproot.Plugin) error
	untried    string // why not
}

func reads(name string) func(caproot.Plugin) error {
	return func(p caproot.Plugin) error { _, err := p.ReadFile(name); return err }
}

func puts(name string, size int) func(caproot.Plugin) error {
	return func(p caproot.Plugin) error {
		_, err := p.Put(name, make([]byte, size), caproot.PutOptions{Parents: true})
		return err
	}
}

func (d *demo) attempts() []attempt {
	outside := filepath.Join(d.base, "outside", "new")
	return []attempt{
		{what: "..", call: "ReadFile ../host.txt", want: "escape", do: reads("../host.txt")},
		{what: "absolute path", call: "Put /…/outside/new", want: "escape", do: puts(outside, 1)},
		{what: "link that leads out", call: "ReadFile out/secret.txt", want: "escape", do: reads("out/secret.txt"), untried: d.noSymlinks},
		{what: "removal through it", call: "RemoveAll out/dir", want: "escape", untried: d.noSymlinks,
			do: func(p caproot.Plugin) error { return p.RemoveAll("out/dir") }},
		{what: "a link of its own", call: "Symlink ../../outside", want: "escape",
			do: func(p caproot.Plugin) error { return p.Symlink("../../outside", "own") }},
		magicLink(),
		{what: "hard link", call: "ReadFile alias.txt, also outside", want: "hardlink", do: reads("alias.txt"), untried: d.noHardlinks},
		{what: "denied name", call: "ReadFile private/key", want: "policy", do: reads("private/key")},
		{what: "its alias by link", call: "ReadFile mine/key", want: "policy", do: reads("mine/key"), untried: d.noSymlinks},
		{what: "its aliases by text", call: "Put private. /x, PRIVATE/x, and others", want: "policy", do: putsSpellings},
		{what: "its removal", call: "Rename private own", want: "policy",
			do: func(p caproot.Plugin) error { return p.Rename("private", "own") }},
		{what: "a wider grant", call: "Sub with Compat, ReadFile private/key", want: "policy", do: readsBySub},
		{what: "setuid", call: "Chmod README.md 4755", want: "policy",
			do: func(p caproot.Plugin) error { return p.Chmod("README.md", os.ModeSetuid|0o755) }},
		{what: "more bytes", call: "Put of 2 MiB", want: "too-large", do: puts("big", 2*demoBudget)},
	}
}

func afterRevoke(*demo) attempt {
	return attempt{what: "use after Revoke", call: "ReadFile README.md", want: "revoked", do: reads("README.md")}
}

// putsSpellings tries what Windows or a folding file system takes for the name.
func putsSpellings(p caproot.Plugin) (err error) {
	for _, name := range []string{"private::$I30/x", "private. /x", "Private/x", "PRIVATE/x"} {
		err = puts(name, 1)(p)
		if code := caproot.Code(err); code != "policy" && code != "name" {
			return err
		}
	}
	return err
}

// magicLink is what a kernel follows without looking at its text. A grant of
// /proc is the only way to one that needs no mount.
func magicLink() attempt {
	a := attempt{what: "magic link", call: "ReadFile root/etc/passwd in /proc/self", want: "escape"}
	if _, err := os.Lstat("/proc/self/root"); err != nil || runtime.GOOS != "linux" {
		a.untried = "no /proc"
	}
	a.do = func(caproot.Plugin) error {
		r, err := caproot.Open("/proc/self", caproot.Workspace())
		if err != nil {
			return err
		}
		defer r.Close()
		return reads("root/etc/passwd")(r.Plugin())
	}
	return a
}

func readsBySub(p caproot.Plugin) error {
	sub, err := p.Sub(".", caproot.Grant{Policy: caproot.Compat()})
	if err != nil {
		return err
	}
	defer sub.Close()
	return reads("private/key")(sub)
}

// raceTime is long enough for thousands of exchanges.
const raceTime = 300 * time.Millisecond

// race lets the host exchange a directory with a link that leads out, over and
// over, while the plugin reads and writes in it. Neither may come out.
func (d *demo) race() error {
	dir, bait := demoPlugin+"/swap", demoPlugin+"/bait"
	row := attempted{Attempt: "race", Call: "both in swap/, exchanged with a link"}
	if d.noSymlinks != "" {
		row.Note, row.Refused = "not tried: "+d.noSymlinks, true
		return d.line(row)
	}
	if _, err := d.host.Exchange(dir, bait, caproot.MoveOptions{}); err != nil {
		row.Note, row.Refused = "not tried: "+caproot.Code(err), true
		return d.line(row)
	}
	end := make(chan struct{})
	swaps := 0
	var swapping sync.WaitGroup
	swapping.Go(func() {
		for {
			select {
			case <-end:
				return
			default:
			}
			if _, err := d.host.Exchange(dir, bait, caproot.MoveOptions{}); err == nil {
				swaps++
			}
		}
	})
	tries, out := 0, 0
	for start := time.Now(); time.Since(start) < raceTime; tries++ {
		data, err := d.plugin.ReadFile("swap/secret.txt")
		if err == nil && string(data) == demoText {
			out++
		}
		// What this brings out, the seal shows.
		_ = d.plugin.WriteFile("swap/secret.txt", []byte("x"), 0o644)
	}
	close(end)
	swapping.Wait()
	row.Refused = out == 0
	row.Note = fmt.Sprintf("%d of %d got out; %d swaps", out, tries, swaps)
	return d.line(row)
}
