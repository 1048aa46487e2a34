package console

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/strikesmq/strikes/counter"
)

// TestWhileSlow: a request is repeated only if the store is slow.
func TestWhileSlow(t *testing.T) {
	slow := fmt.Errorf("read: %w", &counter.StoreError{Fault: counter.FaultSlow, Err: context.DeadlineExceeded})
	away := &counter.StoreError{Fault: counter.FaultUnreachable, Err: errors.New("refused")}
	for name, tc := range map[string]struct {
		errs  []error
		calls int
		err   error
	}{
		"well":           {[]error{nil}, 1, nil},
		"slow, and well": {[]error{slow, slow, nil}, 3, nil},
		"away":           {[]error{away}, 1, away},
		"slow, and away": {[]error{slow, away}, 2, away},
	} {
		calls := 0
		value, err := whileSlow(t.Context(), func() (int, error) { calls++; return calls, tc.errs[calls-1] })
		if calls != tc.calls || value != calls || !errors.Is(err, tc.err) {
			t.Errorf("%s: %d calls, %d, %v", name, calls, value, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	if _, err := whileSlow(ctx, func() (int, error) { cancel(); return 0, slow }); !errors.Is(err, slow) {
		t.Errorf("a request that ended: %v", err)
	}
}
