package consumer

import (
	"errors"
	"fmt"
	"net"
	"testing"
)

// TestIsNetwork: a connection that breaks during the check is dialled again. A broker that cannot be reached, or says
// no, refuses the queue.
func TestIsNetwork(t *testing.T) {
	for _, tc := range []struct {
		err  error
		want bool
	}{
		{&net.OpError{Op: "write", Err: net.ErrClosed}, true},
		{fmt.Errorf("inspect queue: %w", &net.OpError{Op: "read", Err: errors.New("connection reset by peer")}), true},
		{&net.OpError{Op: "dial", Err: errors.New("connection refused")}, false}, // of the management API
		{errors.New("it has no dead-letter exchange"), false},
	} {
		if got := isNetwork(tc.err); got != tc.want {
			t.Errorf("%v: %v", tc.err, got)
		}
	}
}
