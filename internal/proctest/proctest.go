// Package proctest has tests wait for a condition.
package proctest

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/strikesmq/strikes/internal/poll"
)

// Within polls f until it returns nil, also while the test cleans up.
func Within(t testing.TB, limit time.Duration, f func() error) {
	t.Helper()
	if err := poll.Until(context.WithoutCancel(t.Context()), limit, "a condition", f); err != nil {
		t.Fatal(err)
	}
}

// Eventually polls cond until it holds, also while the test cleans up.
func Eventually(t testing.TB, limit time.Duration, what string, cond func() bool) {
	t.Helper()
	Within(t, limit, func() error {
		if !cond() {
			return errors.New(what)
		}
		return nil
	})
}
