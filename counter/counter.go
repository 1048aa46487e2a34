// Package counter counts, outside the broker, the failed attempts of each message of a queue.
//
// A message is counted by its id, in one queue, for one generation: from its first delivery to its dead-lettering. Its
// record is one Redis string, or one document of another Store. Four steps write it. On Redis each step is one script
// and one round trip, which concurrent steps share:
//
//   - START, before the handler of a redelivered message runs, says whether it may;
//   - BEGUN, after START of an attempt that runs isolated, says that its handler is called now;
//   - FAIL, after the handler failed, counts the attempt and says whether to requeue or to dead-letter;
//   - END, after a STARTed attempt ended and is not counted, closes it.
//
// A message that succeeds on its first delivery takes no step. A step is identified by the token of its attempt, so it
// is safe to repeat if its reply was lost. The scripts are the files under scripts; their headers describe them for
// other languages.
//
// [Counter] takes the steps on Redis, and on any other [Store] if [Over] made it. [Memory] takes them in this process,
// for tests. Package consumer takes them at the right time; most programs only construct a Counter and pass it on.
// [Admin] is for operators.
package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// DefaultPrefix begins the keys of a Counter whose Options have no Prefix. Its number is the version of the record's
// layout.
const DefaultPrefix = "strikes:1"

// DefaultTTL is how long a record outlives its last write.
const DefaultTTL = 7 * 24 * time.Hour

// Options of a Counter or a Memory. A nil *Options and the zero value mean the defaults.
type Options struct {
	// Prefix of every key; if empty, DefaultPrefix. Two brokers that share a Redis need one each, because a queue of the
	// same name may exist on both. It must not contain braces, which would change the slot of a key in a Cluster.
	Prefix string

	// TTL of a record, renewed by each write; if zero, DefaultTTL. A record that expires takes its counts with it, so the
	// TTL must be longer than the longest time between two attempts: include a weekend without consumers. At least a
	// minute. A consumer requires the sum of its HandlerTimeout, three quarters of its ConsumerTimeout and a minute.
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
	case strings.ContainsAny(o.Prefix, "{}"):
		return setting.New("Prefix", o.Prefix, "without { and }")
	case o.TTL < time.Minute:
		return setting.New("TTL", o.TTL, "1m0s at least, and longer than the longest time between two attempts")
	}
	return nil
}

// Counter counts on Redis: a single server, one behind Sentinel, or a Cluster. It is safe for concurrent use by
// goroutines and processes.
type Counter struct{ *client }

// New returns a Counter that uses the caller's client. The caller closes the client.
//
// The client's settings decide how an outage of Redis shows. New refuses settings that it recognises as unsafe: every
// method of the Counter then returns an error that wraps ErrUnsafeClient and names the setting. Measured with go-redis
// 9.23:
//
//   - MaxRetries other than -1: the client repeats a command whose reply is lost up to three times, unseen by the
//     consumer. The consumer repeats steps itself, because it knows for how long a delivery may be held.
//   - ContextTimeoutEnabled false: a context of 300 ms returned after 5 s.
//   - a Cluster client with ReadOnly, RouteByLatency or RouteRandomly: it reads from replicas, which are behind their
//     master.
//   - a Ring: it moves keys to another server while theirs is down, and their counts start again.
//
// Other settings are best set as Dial sets them: ReadTimeout and WriteTimeout 250 ms, DialerRetries 1, and for a
// Cluster MaxRedirects 1. A nil opts means the defaults.
func New(rdb redis.UniversalClient, opts *Options) *Counter {
	o := opts.withDefaults()
	if err := errors.Join(o.validate(), refuseClient(rdb)); err != nil {
		return over(refusedStore{newMemoryStore(), err}, o)
	}
	c := &client{rdb: rdb, opts: o, secrets: []string{passwordOf(rdb)}}
	c.cluster, _ = rdb.(*redis.ClusterClient)
	c.pipe = newPipeline(c.sendScripts, c.cluster != nil, maxFlushes)
	c.store = redisStore{c}
	return &Counter{c}
}

// Over returns a Counter over any Store, such as those of store/postgres and store/mysql. It takes each step with one
// Load and one Save, which concurrent steps of a queue share. A busy queue is loaded once a second, and the record of a
// message only if this Counter did not write it last. If another process changes the documents of a step meanwhile, it
// takes the step again, until the caller's ctx ends. Close closes the store. Of the options it uses only
// TTL, because the store makes its own keys. A nil opts means the defaults. Without a store every method returns a
// *FieldError.
func Over(store Store, opts *Options) *Counter {
	o := opts.withDefaults()
	err := o.validate()
	if store == nil {
		store, err = newMemoryStore(), setting.New("store", nil, "a Store such as that of store/postgres")
	}
	if err != nil {
		store = refusedStore{store, err}
	}
	return over(store, o)
}

func over(store Store, o Options) *Counter {
	c := &client{opts: o, store: store}
	c.pipe = newPipeline(c.takeBatch, true, 1)
	return &Counter{c}
}

// refusedStore is the Store of a Counter that must not be used. Each method of a Counter begins with one of these four,
// which return why. Close closes the Store.
type refusedStore struct {
	Store
	why error
}

func (r refusedStore) Load(context.Context, Queue, ...string) (time.Time, []Doc, error) {
	return time.Time{}, nil, r.why
}
func (r refusedStore) Page(context.Context, Queue, string, Entry, int) ([]Entry, error) {
	return nil, r.why
}
func (r refusedStore) Count(context.Context, Queue, string, int64) (int, error) { return 0, r.why }
func (r refusedStore) Examine(context.Context) ([]Finding, error)               { return nil, r.why }

// TTL is how long a record is kept after its last write.
func (c *Counter) TTL() time.Duration { return c.opts.TTL }

// Admin returns the operators' methods. They use the Counter's client, which Close closes.
func (c *Counter) Admin() *Admin { return &Admin{c.client} }

// Close closes the client that Dial opened, or the store of Over, and waits for the steps under way. It may be called
// again.
func (c *Counter) Close() error {
	if c.pipe != nil {
		defer c.pipe.wait()
	}
	return c.store.Close()
}

// Start asks whether an attempt at a redelivered message may run, and opens it; mode says which other handlers may run
// in this process meanwhile. The limit is the number of counted attempts at which the message is exhausted: 1 to 1001,
// a larger one counts as 1001. The Code of the Reply is ReplyRun, ReplyWait, ReplySuspect or ReplyExhausted of package
// rules, which also has the modes. After an error the attempt may or may not be open: call Start again with the same
// token, or End. ModeIsolated only reserves the attempt: call Begun before its handler.
func (c *Counter) Start(ctx context.Context, a Attempt, mode rules.Mode, limit int) (Reply, error) {
	switch {
	case limit < 1:
		return Reply{}, fmt.Errorf("counter: start: %w", setting.New("limit", limit, "1 at least"))
	case mode < rules.ModeShared || mode > rules.ModeBesideAbandoned:
		want := "ModeShared, ModeIsolated, ModeUntracked or ModeBesideAbandoned"
		return Reply{}, fmt.Errorf("counter: start: %w", setting.New("mode", mode, want))
	}
	by := func(r *Record, q *rules.Queue, a Attempt, now time.Time) (Reply, time.Duration) {
		return rules.Start(r, q, a, mode, limit, now)
	}
	return c.take(ctx, stepStart, a, by, min(limit, rules.MaxLimit), mode.String(), a.Fence, rules.CeilMillis(a.MaxAge))
}

// Begun makes an attempt countable that Start with ModeIsolated let run. From now on, the next Start counts a crash
// if the attempt is still open. Call it immediately before the handler, and call the handler only if the Code is
// ReplyBegun. After ReplyGone the attempt is not open: call End, and begin another one. After an error it may or
// may not be countable: call Begun again with the same token, or End.
func (c *Counter) Begun(ctx context.Context, a Attempt) (Reply, error) {
	return c.take(ctx, stepBegun, a, rules.Begun, 0)
}

// Fail counts a failed attempt. The Code of the Reply is ReplyRequeue or ReplyExhausted. After an error it may or may
// not be counted: call Fail again with the same token, which counts it once however often it arrives.
func (c *Counter) Fail(ctx context.Context, a Attempt, f Failure) (Reply, error) {
	if err := checkFailure(a, f); err != nil {
		return Reply{}, err
	}
	by := func(r *Record, q *rules.Queue, a Attempt, now time.Time) (Reply, time.Duration) {
		return rules.Fail(r, q, a, f, now)
	}
	reply, err := c.take(ctx, stepFail, a, by, min(max(f.Limit, 0), rules.MaxLimit), rules.CeilMillis(f.Wait),
		string(cmp.Or(f.Cause, CauseFailed)), printable.Cut(f.Reason, MaxReason),
		max(f.Ran, 0).Milliseconds(), rules.CeilMillis(a.MaxAge), int64(min(f.AtMost, rules.MaxLimit)))
	if err == nil && reply.Code == rules.ReplyUncounted {
		err = c.alive(ctx, a)
	}
	return reply, err
}

// Moved records that the broker has confirmed the copy of a message. copyNumber is Reply.CopyNumber of the Start or
// Fail that asked for the move. One call is enough, even if its reply is lost: the Start of the copy records the same.
func (c *Counter) Moved(ctx context.Context, a Attempt, copyNumber int64) error {
	_, err := c.change(ctx, "moved", a.Message, func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
		return rules.Moved(r, q, copyNumber, now)
	})
	return err
}

// End closes an attempt that Start let run and that is not counted: it succeeded, and its delivery is about to be
// acked; or it was stopped. If it was counted as a crash meanwhile, End reverses that. After an error it may or may not
// be closed: call End again with the same token.
func (c *Counter) End(ctx context.Context, a Attempt, succeeded bool) error {
	by := func(r *Record, q *rules.Queue, a Attempt, now time.Time) (Reply, time.Duration) {
		return rules.End(r, q, a, succeeded, now)
	}
	_, err := c.take(ctx, stepEnd, a, by, 0, rules.Flag(succeeded), rules.KeepDone.Milliseconds())
	if err == nil {
		err = c.alive(ctx, a)
	}
	return err
}

// alive ends a pause for the message of an attempt, if the message held its queue for a crash that is reversed.
func (c *Counter) alive(ctx context.Context, a Attempt) error {
	if !a.HoldsQueue {
		return nil
	}
	err := c.release(ctx, a.Message, Note{By: a.Consumer, Why: "the message that held the queue did not kill its process"})
	if errors.Is(err, ErrForeign) { // no pause of strikes
		return nil
	}
	return failed("resume", a.Queue, err)
}
