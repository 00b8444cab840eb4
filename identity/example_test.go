package identity_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/caproot/caproot/identity"
)

// A file was removed and another one created under its name. The file system
// gave out the same number again; the generation in the handle tells.
func ExampleCompare() {
	before := identity.ID{Dev: 65024, Ino: 9977990, Handle: "\x00\x00\x00\x01\x86\x40\x98\x00\x3c\xff\x44\x42"}
	after := identity.ID{Dev: 65024, Ino: 9977990, Handle: "\x00\x00\x00\x01\x86\x40\x98\x00\x5b\x03\xbf\xed"}
	fmt.Println(identity.Compare(before, before))
	fmt.Println(identity.Compare(before, after))

	// Without handles the numbers are all there is, and numbers are no proof.
	before.Handle, after.Handle = "", ""
	fmt.Println(identity.Compare(before, after))
	// Output:
	// same proof-handle
	// different handle
	// unknown reusable-number
}

func ExampleParseID() {
	id := identity.ID{Dev: 65024, Ino: 72057594037932383, Gen: 1111818044, HasGen: true}
	fmt.Println(id)
	back, err := identity.ParseID(id.String())
	fmt.Println(back == id, err)
	// Output:
	// type=file dev=65024 ino=72057594037932383 gen=1111818044
	// true <nil>
}

func ExampleReceipt_Compare() {
	taken := identity.Receipt{
		ID:   identity.ID{Dev: 65024, Ino: 12, Gen: 7, HasGen: true},
		Size: 5, Mode: 0o644,
	}
	now := taken
	now.Size = 6
	fmt.Println(taken.Compare(now))
	// Output: different size
}

func ExampleReceipt_MarshalJSON() {
	receipt := identity.Receipt{
		Op: "put", Path: "notes/caf\xe9", // Latin-1, so not UTF-8
		ID:   identity.ID{Dev: 65024, Ino: 72057594037932383, Gen: 7, HasGen: true},
		Size: 5, Mode: 0o644, Nlink: 1, ModTime: time.Unix(1796099980, 207822204),
		Containment: identity.KernelAtomic, Durability: identity.DurabilityDir, Asked: identity.DurabilityDir,
		Published: identity.Created,
	}
	text, err := json.MarshalIndent(receipt, "", "  ")
	fmt.Println(string(text), err)

	var back identity.Receipt
	err = json.Unmarshal(text, &back)
	fmt.Println(back.Path == receipt.Path, err)
	// Output:
	// {
	//   "v": 1,
	//   "op": "put",
	//   "path_b64": "bm90ZXMvY2Fm6Q==",
	//   "id": {
	//     "type": "file",
	//     "dev": "65024",
	//     "ino": "72057594037932383",
	//     "gen": "7"
	//   },
	//   "size": "5",
	//   "mode": "0100644",
	//   "nlink": "1",
	//   "mtime": "1796099980.207822204",
	//   "containment": "kernel-atomic",
	//   "durability": "dir",
	//   "asked": "dir",
	//   "published": "created"
	// } <nil>
	// true <nil>
}

func ExampleReceipt_UnmarshalJSON() {
	var receipt identity.Receipt
	err := json.Unmarshal([]byte(`{"v":7}`), &receipt)
	var version *identity.VersionError
	fmt.Println(errors.As(err, &version), errors.Is(err, identity.ErrFormat))
	fmt.Println(err)
	// Output:
	// true true
	// identity: receipt version 7, want 1
}
