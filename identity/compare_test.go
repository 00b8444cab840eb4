package identity_test

import (
	"encoding/hex"
	"io/fs"
	"testing"

	"github.com/caproot/caproot/identity"
	"pgregory.net/rapid"
)

// Handles, four bytes of type first. Those of ext4, tmpfs, sysfs, procfs, ramfs
// and overlay are as Linux 6.18 gave them, the others are made after the layout.
const (
	handleExt4      = "00000001" + "864098003cff4442"
	handleExt4Later = "00000001" + "864098005b03bfed"
	handleTmpfs     = "00000001" + "fec494d30300000000000000"
	handleSysfs     = "00000081" + "4b0e00000000000001000000"
	handleProcfs    = "00000081" + "ac7e00000000000000000000"
	handleRamfs     = "00000081" + "8f7e00000000000000000000"
	handleOverlay   = "000000f8" + "00000000fb1d000100000000000000000000000000000000" + "9a4098005b03bfed"
	// FUSE without generations, below overlay.
	handleOverlayNone = "000000f8" + "00000000fb21008100000000000000000000000000000000" + "000000000500000000000000"
	handleIno32None   = "00000001" + "8640980000000000"
	handleBtrfs       = "0000004d" + "010100000000000005000000000000000000000000"
)

func handle(digits string) string {
	b, err := hex.DecodeString(digits)
	if err != nil {
		panic(err)
	}
	return string(b)
}

// whole has every kind of evidence.
func whole() identity.ID {
	return identity.ID{
		Dev: 0xfe00, Mount: 2147483676, Ino: 9977990, Gen: 1111818044, HasGen: true,
		Birth: 1796099980207822204, HasBirth: true, Handle: handle(handleExt4),
	}
}

// Edits of two IDs that have every kind of evidence.

func numbersOnly(id *identity.ID) { id.Handle, id.Gen, id.HasGen, id.HasBirth = "", 0, false, false }
func noHandle(id *identity.ID)    { id.Handle = "" }

func both(edits ...func(*identity.ID)) func(a, b *identity.ID) {
	return func(a, b *identity.ID) {
		for _, edit := range edits {
			edit(a)
			edit(b)
		}
	}
}

func handles(x, y string) func(a, b *identity.ID) {
	return func(a, b *identity.ID) {
		both(numbersOnly)(a, b)
		a.Handle, b.Handle = handle(x), handle(y)
	}
}

var compareTests = []struct {
	name string
	edit func(a, b *identity.ID)
	want identity.Verdict
	why  identity.Reason
}{
	{"all equal", both(), identity.Same, identity.ProofHandle},
	{"generation is proof without a handle", both(noHandle), identity.Same, identity.ProofGeneration},
	{"generation is proof when one side has no handle", func(a, b *identity.ID) { a.Handle = "" }, identity.Same, identity.ProofGeneration},
	{"case 68: numbers alone", both(numbersOnly), identity.Unknown, identity.ReusableNumber},
	{"case 68: numbers and birth alone", both(noHandle, func(id *identity.ID) { id.HasGen = false }), identity.Unknown, identity.ReusableNumber},
	{"case 69: generation of one side", func(a, b *identity.ID) { numbersOnly(a); noHandle(b) }, identity.Unknown, identity.ReusableNumber},
	{"case 69: zero generations", both(numbersOnly, func(id *identity.ID) { id.HasGen = true }), identity.Unknown, identity.ReusableNumber},
	{"case 69: zero is not another", func(a, b *identity.ID) { both(noHandle)(a, b); a.Gen = 0 }, identity.Different, identity.ByGeneration},
	{"case 70: numbers one apart beyond 2^53", func(a, b *identity.ID) { a.Ino, b.Ino = 72057594037932382, 72057594037932383 }, identity.Different, identity.ByFileNumber},
	{"high half of a number", func(a, b *identity.ID) { b.InoHigh = 1 }, identity.Different, identity.ByFileNumber},
	{"case 71: {0,0} and {0,0}", both(func(id *identity.ID) { id.Dev, id.Ino = 0, 0 }), identity.Unknown, identity.NoIdentity},
	{"case 71: {0,0} and {0,5}", func(a, b *identity.ID) { a.Dev, a.Ino, b.Dev, b.Ino = 0, 0, 0, 5 }, identity.Unknown, identity.NoIdentity},
	{"case 71: {0,0} and {3,5}", func(a, b *identity.ID) { a.Dev, a.Ino, b.Dev, b.Ino = 0, 0, 3, 5 }, identity.Unknown, identity.NoIdentity},
	{"case 71: {0,5} and {3,5}", func(a, b *identity.ID) { a.Dev, a.Ino, b.Dev, b.Ino = 0, 5, 3, 5 }, identity.Unknown, identity.NoIdentity},
	{"case 71: {3,0} and {3,0}", both(func(id *identity.ID) { id.Dev, id.Ino = 3, 0 }), identity.Unknown, identity.NoIdentity},
	{"case 72, 73: another number at each look", func(a, b *identity.ID) { b.Ino++ }, identity.Different, identity.ByFileNumber},
	{"case 75: two mounts, all equal", func(a, b *identity.ID) { b.Mount++ }, identity.Same, identity.ProofHandle},
	{"case 75: two mounts, numbers", func(a, b *identity.ID) { both(numbersOnly)(a, b); b.Mount++ }, identity.Unknown, identity.OtherMount},
	{"case 75: two mounts, no handle", func(a, b *identity.ID) { both(noHandle)(a, b); b.Mount++ }, identity.Unknown, identity.OtherMount},
	{"case 75: two mounts, no birth", func(a, b *identity.ID) { b.Mount++; b.HasBirth = false }, identity.Unknown, identity.OtherMount},
	{"case 75: two mounts, birth differs", func(a, b *identity.ID) { b.Mount++; b.Birth++ }, identity.Different, identity.ByBirth},
	{"case 75: two mounts, generation differs", func(a, b *identity.ID) { both(noHandle)(a, b); b.Mount++; b.Gen++ }, identity.Different, identity.ByGeneration},
	{"case 75: one mount unknown", func(a, b *identity.ID) { b.Mount = 0 }, identity.Same, identity.ProofHandle},
	{"case 76: device with the top bit", func(a, b *identity.ID) { a.Dev, b.Dev = 1<<63|5, 5 }, identity.Different, identity.ByDevice},
	{"device", func(a, b *identity.ID) { b.Dev++ }, identity.Different, identity.ByDevice},
	{"generation differs, handle equal", func(a, b *identity.ID) { b.Gen++ }, identity.Different, identity.ByGeneration},
	{"birth differs by a nanosecond", func(a, b *identity.ID) { b.Birth++ }, identity.Different, identity.ByBirth},
	{"birth of one side", func(a, b *identity.ID) { b.HasBirth = false; b.Birth = 0 }, identity.Same, identity.ProofHandle},
	{"type", func(a, b *identity.ID) { b.Type = fs.ModeDir }, identity.Different, identity.ByType},
	{"permission bits are no type", func(a, b *identity.ID) { b.Type = 0o644 }, identity.Same, identity.ProofHandle},
	{"mixed types are one kind", func(a, b *identity.ID) { a.Type, b.Type = fs.ModeDir|fs.ModeIrregular, fs.ModeIrregular }, identity.Same, identity.ProofHandle},
	{"ext4: number used again", handles(handleExt4, handleExt4Later), identity.Different, identity.ByHandle},
	{"ext4", handles(handleExt4, handleExt4), identity.Same, identity.ProofHandle},
	{"tmpfs", handles(handleTmpfs, handleTmpfs), identity.Same, identity.ProofHandle},
	{"sysfs", handles(handleSysfs, handleSysfs), identity.Same, identity.ProofHandle},
	{"overlay", handles(handleOverlay, handleOverlay), identity.Same, identity.ProofHandle},
	{"btrfs", handles(handleBtrfs, handleBtrfs), identity.Same, identity.ProofHandle},
	{"procfs has no generation", handles(handleProcfs, handleProcfs), identity.Unknown, identity.ReusableNumber},
	{"ramfs has no generation", handles(handleRamfs, handleRamfs), identity.Unknown, identity.ReusableNumber},
	{"layer of overlay has no generation", handles(handleOverlayNone, handleOverlayNone), identity.Unknown, identity.ReusableNumber},
	{"32-bit handle has no generation", handles(handleIno32None, handleIno32None), identity.Unknown, identity.ReusableNumber},
	{"case 73: node numbers without generation are no difference", handles(handleRamfs, handleProcfs), identity.Unknown, identity.ReusableNumber},
}

func TestCompare(t *testing.T) {
	for _, tt := range compareTests {
		t.Run(tt.name, func(t *testing.T) {
			a, b := whole(), whole()
			tt.edit(&a, &b)
			for range 2 {
				if v, why := identity.Compare(a, b); v != tt.want || why != tt.why {
					t.Errorf("Compare(%v, %v) = %v, %s, want %v, %s", a, b, v, why, tt.want, tt.why)
				}
				a, b = b, a
			}
		})
	}
}

// ids draws from so few values that equal evidence is common.
func ids() *rapid.Generator[identity.ID] {
	return rapid.Custom(func(t *rapid.T) identity.ID {
		few := func(label string) uint64 { return rapid.Uint64Range(0, 2).Draw(t, label) }
		digits := rapid.SampledFrom([]string{"", handleExt4, handleExt4Later, handleRamfs, handleOverlayNone}).Draw(t, "handle")
		return identity.ID{
			Dev: few("dev"), Mount: few("mount"), Ino: few("ino"), InoHigh: few("high") / 2,
			Gen: few("gen"), HasGen: rapid.Bool().Draw(t, "has gen"),
			Birth: int64(few("birth")), HasBirth: rapid.Bool().Draw(t, "has birth"),
			Handle: handle(digits),
			Type:   rapid.SampledFrom([]fs.FileMode{0, fs.ModeDir}).Draw(t, "type"),
		}
	})
}

func verdict(a, b identity.ID) identity.Verdict {
	v, _ := identity.Compare(a, b)
	return v
}

func TestCompareProperties(t *testing.T) {
	seen := map[identity.Verdict]int{}
	rapid.Check(t, func(t *rapid.T) {
		a, b := ids().Draw(t, "a"), ids().Draw(t, "b")
		if rapid.Bool().Draw(t, "one object") {
			a = b
			a.Mount = rapid.Uint64Range(0, 2).Draw(t, "other mount")
		}
		v, why := identity.Compare(a, b)
		seen[v]++
		if back, backWhy := identity.Compare(b, a); back != v || backWhy != why {
			t.Fatalf("%v, %s one way and %v, %s the other", v, why, back, backWhy)
		}
		if verdict(a, a) == identity.Different {
			t.Fatal("differs from itself")
		}
		handles := a.Handle != "" && a.Handle == b.Handle
		generations := a.HasGen && b.HasGen && a.Gen == b.Gen && a.Gen != 0
		if v == identity.Same && !handles && !generations {
			t.Fatal("Same without proof")
		}
		if v != identity.Unknown && (!a.Known() || !b.Known()) {
			t.Fatal("decided without numbers")
		}
		neverByNumbers(t, a, b)
		lessIsNotMore(t, a, b)
	})
	for _, v := range []identity.Verdict{identity.Unknown, identity.Same, identity.Different} {
		if seen[v] == 0 {
			t.Errorf("no pair was %v: the properties were not tried", v)
		}
	}
}

// neverByNumbers: without handle and generation nothing is Same, case 68.
func neverByNumbers(t *rapid.T, a, b identity.ID) {
	for _, id := range []*identity.ID{&a, &b} {
		id.Handle, id.HasGen = "", false
	}
	if verdict(a, b) == identity.Same || verdict(a, a) == identity.Same {
		t.Fatal("Same by numbers")
	}
}

// lessIsNotMore: taking evidence away from one side never makes two objects the
// same. The mount id is no such evidence: it only asks for more.
func lessIsNotMore(t *rapid.T, a, b identity.ID) {
	before := verdict(a, b)
	for name, take := range map[string]func(*identity.ID){
		"handle": func(id *identity.ID) { id.Handle = "" },
		"gen":    func(id *identity.ID) { id.HasGen = false },
		"number": func(id *identity.ID) { id.Ino, id.InoHigh = 0, 0 },
		"device": func(id *identity.ID) { id.Dev = 0 },
	} {
		less := a
		take(&less)
		if verdict(less, b) == identity.Same && before == identity.Unknown {
			t.Fatalf("Unknown, and Same without the %s", name)
		}
	}
}
