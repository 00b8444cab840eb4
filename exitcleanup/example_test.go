package exitcleanup_test

import (
	"context"
	"fmt"
	"os"

	"github.com/caproot/caproot/exitcleanup"
)

func Example() {
	dir, err := os.MkdirTemp("", "example")
	if err != nil {
		panic(err)
	}
	entry := exitcleanup.Register("scratch directory", func(context.Context) error { return os.RemoveAll(dir) })

	// What Main, Exit and a handled signal do before they end the process:
	fmt.Println(exitcleanup.Run(context.Background()))

	_, err = os.Stat(dir)
	fmt.Println(os.IsNotExist(err), entry.Cancel())
	// Output:
	// <nil>
	// true false
}

func ExampleMain() {
	run := func(ctx context.Context) int {
		<-ctx.Done() // of SIGINT, SIGTERM or SIGHUP
		return 0
	}
	exitcleanup.HandleSignals()
	exitcleanup.Main(run)
}
