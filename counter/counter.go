// Package counter keeps, outside the broker, how often each message of a queue has failed.
//
// A message is counted by its id, in one queue, for one life (from its first delivery to its dead-lettering). What is
// kept is one Redis string, written by three steps, each one script and one round trip, which steps taken at once share:
//
//   - START, before the handler of a redelivered message runs, tells whether it may;
//   - FAIL, after it failed, charges the attempt and tells whether to requeue or to dead-letter;
//   - END, after an attempt that was STARTed ended without a charge, closes it.
//
// A message that succeeds on its first delivery takes none of them. A step is charged by the token of its attempt, so
// sending it again, because its reply was lost, changes nothing. The scripts are the files under scripts; their headers
// are written for those who want to take the same steps from another language.
//
// [Counter] takes the steps on Redis, [Memory] in this process, for tests. Package consumer is what takes them at the
// right time; most programs only construct a Counter and hand it over.
package counter

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/setting"
)

// DefaultPrefix begins the keys of a Counter whose Options name none. The number is the version of the record's layout.
const DefaultPrefix = "strikes:1"

// DefaultTTL is how long a record outlives its last write.
const DefaultTTL = 7 * 24 * time.Hour

// How long a success and a dead-lettering are remembered, for an ack or a nack that was lost on its way.
const (
	keepDone  = 10 * time.Minute
	tombstone = 10 * time.Minute
)

// Options of a Counter or a Memory. A nil *Options and the zero value mean the defaults.
type Options struct {
	// Prefix of every key; if empty, DefaultPrefix. Two brokers that share a Redis need one each, for a queue of one
	// name may exist on both. It must not contain braces, which would change the slot of a key in a cluster.
	Prefix string

	// TTL of a record, renewed by each write; if zero, DefaultTTL. It must be longer than the longest time between two
	// attempts at a message, for a record that expires takes its charges with it: a weekend with the consumers stopped
	// counts. At least a minute; a consumer refuses less than the sum of its HandlerTimeout, three quarters of its
	// ConsumerTimeout and a minute.
	TTL time.Duration
}

func (o *Options) withDefaults() Options {
	var out Options
	if o != nil {
		out = *o
	}
	if out.Prefix == "" {
		out.Prefix = DefaultPrefix
	}
	if out.TTL == 0 {
		out.TTL = DefaultTTL
	}
	return out
}

func (o Options) validate() error {
	switch {
	case containsBrace(o.Prefix):
		return fmt.Errorf("counter: %w", setting.New("Prefix", o.Prefix, "without { and }"))
	case o.TTL < time.Minute:
		return fmt.Errorf("counter: %w", setting.New("TTL", o.TTL, "1m0s at least, and longer than the longest time between two attempts"))
	}
	return nil
}

// Counter counts on Redis: a single server, one behind Sentinel, or a Cluster. It is safe for use by many goroutines,
// and by many processes at once.
type Counter struct {
	*client
	owned bool // Dial opened rdb, so Close closes it
}

// New returns a Counter on a client of the caller's, who also closes it.
//
// The client's settings decide how an outage of Redis is felt, and New refuses those it can see to be unsafe: every
// method of the Counter then returns an error that wraps ErrUnsafeClient and names the setting. Measured with
// go-redis 9.23:
//
//   - MaxRetries other than -1: a command whose reply is lost is sent again by the client, up to three times, behind the
//     back of whoever waits for it. Retries belong to the consumer, which knows for how long a delivery may be held.
//   - ContextTimeoutEnabled false: a context of 300 ms returned after 5 s.
//   - a Ring: it moves keys to another server while theirs is down, and their counts start again.
//
// Not refused, but best set as Dial sets them: ReadTimeout and WriteTimeout of 250 ms, DialerRetries 1, and for a
// Cluster MaxRedirects 1. A nil opts means the defaults.
func New(rdb redis.UniversalClient, opts *Options) *Counter {
	c := &client{rdb: rdb, opts: opts.withDefaults(), secrets: secretsOf(rdb)}
	c.cluster, _ = rdb.(*redis.ClusterClient)
	c.pipe = newPipeline(rdb, c.cluster != nil, c.opts)
	c.refuse = errors.Join(c.opts.validate(), refuseClient(rdb))
	return &Counter{client: c}
}

// TTL is how long a record is kept after its last write.
func (c *Counter) TTL() time.Duration { return c.opts.TTL }

// Close closes the client if Dial opened it, and waits for the steps under way: after Dial they fail at once.
func (c *Counter) Close() error {
	defer c.pipe.wait()
	if !c.owned {
		return nil
	}
	return c.rdb.Close()
}

// Start asks whether an attempt at a redelivered message may run, and marks it as running; mode says what else runs in
// this process meanwhile. The limit is the number of charges at which the message is exhausted: at least 1;
// above 1001 it counts as 1001.
// The Answer's Verdict is Run, Wait, Suspect or Exhausted. An error leaves undecided whether the attempt was marked:
// call Start again with the same token, or End.
func (c *Counter) Start(ctx context.Context, a Attempt, mode Mode, limit int) (Reply, error) {
	if limit < 1 {
		return Reply{}, fmt.Errorf("counter: start: the limit is %d: it must be 1 at least", limit)
	}
	return c.step(ctx, stepStart, a, min(limit, maxLimit), mode.String(), a.Floor)
}

// Fail charges a failed attempt. The Answer's Verdict is Requeue or Exhausted. An error leaves undecided whether it was
// charged: call Fail again with the same token, which charges it once however often it arrives.
func (c *Counter) Fail(ctx context.Context, a Attempt, f Failure) (Reply, error) {
	if err := f.validate(); err != nil {
		return Reply{}, err
	}
	return c.step(ctx, stepFail, a, min(max(f.Limit, 0), maxLimit), ceilMillis(f.Wait), string(f.cause()), cut(f.Reason, MaxReason))
}

// End closes an attempt that Start let run and that is not to be charged: it succeeded, and its delivery is about to be
// acked; or it was stopped. It refunds the attempt if it was charged as a crash meanwhile. An error leaves undecided
// whether it was closed: call End again with the same token.
func (c *Counter) End(ctx context.Context, a Attempt, succeeded bool) error {
	_, err := c.step(ctx, stepEnd, a, 0, flag(succeeded), keepDone.Milliseconds())
	return err
}
