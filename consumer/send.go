package consumer

import (
	"context"
	"errors"
	"time"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter"
)

const (
	stepTimeout = time.Second // for one step on the store

	// Under the isolation lock a step is sent again after lockedTimeout, then after twice as long each time, and given up
	// after lockedPatience: the lock keeps every other handler of the process waiting.
	lockedTimeout  = 250 * time.Millisecond
	lockedPatience = 2 * time.Second
)

// send sends a step to the store. The end of ctx does not interrupt it: to wait for the reply is faster than to clear
// up an undecided step. But under the isolation lock it is not sent again then.
func (s *session) send(ctx context.Context, d *delivery, step func(context.Context) error) error {
	if !d.grip.isolated() {
		return bound.Step(ctx, stepTimeout, step)
	}
	until := time.Now().Add(lockedPatience)
	for wait := lockedTimeout; ; wait = min(2*wait, max(time.Until(until), lockedTimeout)) {
		again := time.After(wait)
		err := bound.Step(ctx, wait, step)
		if err == nil || notTaken(err) || !time.Now().Before(until) || ctx.Err() != nil {
			return err
		}
		<-again
	}
}

// notTaken reports whether the store refused a step without taking it.
func notTaken(err error) bool {
	var store *counter.StoreError
	return errors.Is(err, counter.ErrForeign) || errors.As(err, &store) && neverServes(store)
}
