//go:build linux || darwin || freebsd

package scratch_test

import (
	"fmt"
	"os"

	"github.com/caproot/caproot"
	"github.com/caproot/caproot/scratch"
)

// Without Remove, the end of the program removes the directory: exitcleanup.Main,
// Exit or a handled signal. After SIGKILL, Sweep does.
func Example() {
	base, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	defer os.RemoveAll(base)
	r, err := caproot.Open(base, caproot.Workspace())
	if err != nil {
		panic(err)
	}
	defer r.Close()

	d, err := scratch.New(r, ".", scratch.Options{Prefix: "job-"})
	if err != nil {
		panic(err)
	}
	if _, err := d.Root().Put("part", []byte("work"), caproot.PutOptions{}); err != nil {
		panic(err)
	}
	fmt.Println(d.Remove())
	left, _ := os.ReadDir(base)
	fmt.Println(len(left))
	// Output:
	// <nil>
	// 0
}
