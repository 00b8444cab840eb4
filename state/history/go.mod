module github.com/caproot/caproot/state/history

go 1.26.0

replace github.com/caproot/caproot => ../..

require (
	github.com/anishathalye/porcupine v1.3.1
	github.com/caproot/caproot v0.0.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	golang.org/x/text v0.44.0 // indirect
)
