module github.com/caproot/caproot/faults

go 1.26.0

require (
	github.com/caproot/caproot v0.0.0
	github.com/hanwen/go-fuse/v2 v2.12.1
	golang.org/x/sys v0.50.0
)

require (
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace github.com/caproot/caproot => ../
