module github.com/caproot/caproot

go 1.26.0

require (
	github.com/google/go-cmp v0.7.0
	github.com/hashicorp/go-multierror v1.1.1
	golang.org/x/sys v0.50.0
	golang.org/x/text v0.44.0
	pgregory.net/rapid v1.3.0
)

require github.com/hashicorp/errwrap v1.0.0 // indirect
