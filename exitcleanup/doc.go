// Package exitcleanup runs registered functions when a program ends.
//
// Go runs no code at exit. A program that wants to leave no lock records and
// scratch directories behind says so in its main:
//
//	func main() {
//		exitcleanup.HandleSignals()
//		exitcleanup.Main(run)
//	}
//
//	func run(ctx context.Context) int { … }
//
// and what makes something that should not outlive the process registers how
// to take it away again:
//
//	entry := exitcleanup.Register("scratch directory", remove)
//	// … after the regular removal:
//	entry.Cancel()
//
// # What runs the entries
//
//	the function given to Main returns           exit status: what it returned
//	the function given to Main panics            trace of the runtime, status 2
//	Exit, from any goroutine, also of an entry   its code
//	a signal given to HandleSignals              that of the signal, see below
//	Run                                          the process goes on
//
// Entries run newest first, each at most once, each on a goroutine of its own.
// A failure, a panic or runtime.Goexit in one does not keep the others from
// running. One deadline holds for all of them, see [Options]; entries that it
// keeps from running are reported by name.
//
// # What runs nothing
//
//	os.Exit, log.Fatal, syscall.Exit, syscall.Exec
//	a panic in a goroutine other than that of Main, a fatal error of the runtime
//	return from func main without Main
//	a signal that HandleSignals was not given
//	SIGKILL, the out-of-memory killer, loss of power
//
// So nothing may depend on an entry for its safety. Locks whose holder died
// must be recognised by what the kernel drops at death, and scratch files by a
// sweep at the next start. This package only shortens the wait until then.
//
// # Other goroutines
//
// The process still runs while entries run. After a signal the context given
// to Main is cancelled first, and the entries wait until the function has
// returned, for at most [Options].ReturnTimeout. After that, after Exit, and in
// a program without Main, they run beside whatever else is running: an entry
// that gives up a lock does so while the work under the lock may not have
// stopped. It will, within CleanupTimeout, but an entry for which that is not
// soon enough must not give up its lock, and leave it to the kernel.
//
// # Signals
//
// Nothing is handled before HandleSignals is called. There is one handler for a
// signal however many callers use it, and it is removed with the last of them.
// When the entries have run, the handlers are removed and the signal is raised
// again, so that it does what it would have done without this package:
//
//   - by default it ends the process, whose parent sees the signal as the cause;
//     to process 1 of a container Linux does not deliver such a signal, and Go
//     makes that exit status 2;
//   - a signal that was ignored when HandleSignals was called, by signal.Ignore
//     or, SIGHUP and SIGINT, by the parent as nohup(1) does, stays ignored and
//     runs nothing;
//   - a channel of the program's own signal.Notify gets the signal when it
//     arrives, and again when it is raised. The program then decides itself
//     whether it ends. Go has no way to ask for such a channel, so the entries
//     have run by then. A program that winds down by itself over a longer time
//     wants Main and Exit, not HandleSignals.
//
// A second signal ends the process at once. Signals within 100 ms of the first
// are taken as the same request: timeout(1) of GNU coreutils signals its child
// and then the group, and a terminal signals a wrapper, which passes it on, and
// its child.
//
// On Windows the signals are os.Interrupt and SIGTERM, which Go makes of console
// events. They cannot be raised again: the process exits with
// STATUS_CONTROL_C_EXIT (0xC000013A), as it would without a handler, even where
// the program has a channel of its own. After a close, logoff or shutdown event
// Windows itself ends the process in about five seconds, whatever the timeouts.
//
// # Child processes
//
// Entries live in memory, so a program that is started, or started again, from
// this one has none of them. A registry also remembers the process that filled
// it, by its id and, on Linux, macOS and Windows, its start time. In any other
// process, such as a copy made by a raw fork, its entries never run.
package exitcleanup
