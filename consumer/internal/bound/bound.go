// Package bound puts a bound on calls that have none, such as those of amqp091-go, or that must not end with their
// context, such as a step that the store may have taken.
package bound

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// LastReply is how long a request that is under way may take once ctx is done: most are answered within milliseconds.
const LastReply = time.Second

// Await returns the result of ask, which waits for the broker without a context. It returns an error if ask takes
// longer than d, or than LastReply once ctx is done. ask then goes on until the broker answers or the connection ends;
// late gets its result unless that is an error.
func Await[T any](ctx context.Context, d time.Duration, ask func() (T, error), late func(T)) (T, error) {
	type answer struct {
		it  T
		err error
	}
	given := make(chan answer, 1)
	go func() {
		a := answer{err: errGoexit}
		defer func() { given <- a }()
		a.it, a.err = ask()
	}()
	ctx, cancel := context.WithTimeoutCause(ctx, d, fmt.Errorf("waited for %v", d))
	defer cancel()
	select {
	case a := <-given:
		return a.it, a.err
	case <-ctx.Done():
	}
	select {
	case a := <-given:
		return a.it, a.err
	case <-time.After(LastReply):
	}
	go func() {
		if a := <-given; a.err == nil {
			late(a.it)
		}
	}()
	var none T
	return none, fmt.Errorf("%w (%w); close the connection to end the request", ErrNoReply, context.Cause(ctx))
}

// ErrNoReply is wrapped by Await if there was no reply in time.
var ErrNoReply = errors.New("the broker did not answer")

var errGoexit = errors.New("the request ended its goroutine instead of returning")

// Within calls f and waits for it, for d at most. f then goes on.
func Within(d time.Duration, f func()) error {
	done := make(chan struct{})
	go func() { defer close(done); f() }()
	select {
	case <-done:
		return nil
	case <-time.After(d):
		return fmt.Errorf("the broker did not answer for %v", d)
	}
}

// Step calls step with a context that does not end with ctx, but after the timeout.
func Step(ctx context.Context, timeout time.Duration, step func(context.Context) error) error {
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), timeout)
	defer cancel()
	return step(ctx)
}
