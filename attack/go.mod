module github.com/caproot/caproot/attack

go 1.26.0

require (
	github.com/caproot/caproot v0.0.0
	github.com/cyphar/filepath-securejoin v0.7.0
	golang.org/x/sys v0.50.0
)

require (
	github.com/hashicorp/errwrap v1.0.0 // indirect
	github.com/hashicorp/go-multierror v1.1.1 // indirect
	github.com/stretchr/testify v1.12.1 // indirect
	golang.org/x/text v0.44.0 // indirect
)

replace github.com/caproot/caproot => ../
