package etcdlock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	"go.etcd.io/etcd/api/v3/v3rpc/rpctypes"
	"google.golang.org/grpc/codes"
	"google.golang.org/grpc/status"

	"github.com/caproot/caproot/lock"
)

var (
	errNotRenewed = errors.New("the lease was not renewed in time")
	errLeaseGone  = errors.New("the server does not have the lease any more")
	errKeyGone    = errors.New("the key was removed or replaced")
	errAbandoned  = errors.New("the acquisition ended without the lock")
)

// leaseLost is ErrLeaseLost with its particulars.
func leaseLost(name string, why error) error {
	return fmt.Errorf("%w: %s: %w", lock.ErrLeaseLost, name, why)
}

// transient reports whether the request may succeed if it is made again. A server
// that stops answers with Unknown too.
func transient(err error) bool {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) || errors.Is(err, rpctypes.ErrTooManyRequests) {
		return true
	}
	code := status.Code(err)
	var answer rpctypes.EtcdError
	if errors.As(err, &answer) {
		code = answer.Code()
	}
	switch code {
	case codes.Unavailable, codes.DeadlineExceeded, codes.Canceled, codes.Aborted, codes.Internal, codes.Unknown:
		return true
	}
	return false
}

// noLease reports whether the server says that there is no such lease.
func noLease(err error) bool { return errors.Is(rpctypes.Error(err), rpctypes.ErrLeaseNotFound) }

// payload is what others are told of a holder: nil if the value is no JSON object.
func payload(value []byte) (shown any, own bool) {
	var object map[string]any
	if json.Unmarshal(value, &object) != nil || object == nil {
		return nil, false
	}
	return object, object["process"] == thisProcess
}
