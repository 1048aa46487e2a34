package counter

import (
	"context"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// BreakerState is the breaker of a queue at a time by the store's clock.
type BreakerState struct {
	Breaker
	Now       time.Time
	Permitted bool // of Counter.AskBreaker: the process may begin rules.Probes attempts
}

// AskBreaker reports the successes of a process that has a breaker, and returns the breaker of its queue. A process
// that has a message to run while it is open asks for a permit. After an error the last state stays in force.
func (c *Counter) AskBreaker(ctx context.Context, vhost, queue string, p rules.Progress) (BreakerState, error) {
	return c.changeBreaker(ctx, vhost, queue, func(b *BreakerState) (changed bool) {
		b.Permitted, changed = b.Answer(p, b.Now)
		return changed
	})
}

// ResumeBreaker closes the breaker of a queue, or ends its doubt. Every failure is counted for the time count, 24 h at
// most. That includes the failure of a last attempt, which Patience does not count while the breaker is closed. Use
// count only for a queue in which all messages fail by themselves. If it is zero, the breaker may open again
// immediately, also if the time of an earlier count is not over. ResumeBreaker reports false if it did nothing: count
// is zero, the breaker is closed, the queue is not in doubt, and no earlier count lasts.
func (a *Admin) ResumeBreaker(ctx context.Context, vhost, queue string, count time.Duration) (done bool, err error) {
	_, err = a.changeBreaker(ctx, vhost, queue, func(b *BreakerState) bool {
		done = b.Resume(count, b.Now)
		return done
	})
	return done, err
}

// changeBreaker loads the breaker, and saves it if change returns true.
func (c *client) changeBreaker(ctx context.Context, vhost, queue string,
	change func(*BreakerState) bool) (b BreakerState, err error) {
	err = c.insist(ctx, Queue{vhost, queue}, []string{docBreaker}, func(now time.Time, docs []Doc) (Change, error) {
		d := docs[0]
		b = BreakerState{Now: now.Truncate(time.Millisecond)}
		b.Breaker, _ = rules.DecodeBreaker(d.Data) // another program's text is no breaker
		if d.Err != nil || !change(&b) {
			return Change{}, d.Err
		}
		d.Data, d.Expires = rules.EncodeBreaker(b.Breaker), b.Now.Add(c.opts.TTL)
		return Change{Docs: []Doc{d}}, nil
	})
	return b, failed("breaker", queue, err)
}
