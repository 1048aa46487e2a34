package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// openTimeout is how long a broker may take to accept a consumer. A basic.consume on a quorum queue that was just
// recovering from a kill was never answered (measured on 3.10.8), and amqp091-go waits without a bound.
const openTimeout = 10 * time.Second

// checkTimeout is how long the Check may take; topology's own waits 15 s for a policy to show.
const checkTimeout = time.Minute

// lastReply is how long a request that is under way may take once ctx is done: most are answered within milliseconds.
const lastReply = time.Second

// await returns the result of ask, which waits for the broker without a context. It returns an error if ask takes
// longer than d, or than lastReply once ctx is done. ask then goes on until the broker answers or the connection ends;
// late gets its result unless that is an error.
func await[T any](ctx context.Context, d time.Duration, ask func() (T, error), late func(T)) (T, error) {
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
	patience := time.NewTimer(lastReply)
	defer patience.Stop()
	select {
	case a := <-given:
		return a.it, a.err
	case <-patience.C:
	}
	go func() {
		if a := <-given; a.err == nil {
			late(a.it)
		}
	}()
	var none T
	return none, fmt.Errorf("%w (%w); close the connection to end the request", errNoReply, context.Cause(ctx))
}

var errNoReply = errors.New("the broker did not answer")
