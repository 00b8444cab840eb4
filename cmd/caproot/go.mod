module github.com/caproot/caproot/cmd/caproot

go 1.26.0

require (
	github.com/alecthomas/kong v1.17.0
	github.com/caproot/caproot v0.0.0
	github.com/google/go-cmp v0.7.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace github.com/caproot/caproot => ../..
