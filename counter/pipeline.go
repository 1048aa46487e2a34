package counter

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// How much goes out at once. Two flights keep the server at work while the replies of the other are read; a batch is
// answered well within a read's timeout.
const (
	maxFlights = 2
	maxBatch   = 128
)

// brief is how near a caller's deadline must be for the caller to send its own step. It notices a cancelled context this much
// later at most.
const brief = time.Second

// pipeline sends the steps of concurrent callers together: what arrives while the flights of its line are under way
// goes out with the next, steps of one kind on one queue as one command. A single caller does not wait, and sends its
// step itself if that cannot keep it for long: a goroutine for each such step cost an ordered consumer a seventh of its rate. Nothing is ever sent twice: a connection that is lost leaves all steps of its batch undecided. It has goroutines only
// while steps are under way.
//
// (go-redis has an AutoPipeline. It is experimental, keeps goroutines until it is closed, which a client of the caller's
// leaves to nobody, and may send again what was written to a connection that broke.)
type pipeline struct {
	rdb     redis.UniversalClient
	cluster bool
	opts    Options

	mu    sync.Mutex
	lines map[place]*line // with steps under way
	idle  *sync.Cond      // no lines

	answered atomic.Bool // the last batch was
}

// place is where a step goes: in a Cluster its queue's slot, so that a master that is away delays nobody else's steps;
// else the zero value.
type place struct{ vhost, queue string }

type line struct {
	flights int
	waiting []*passenger
}

// script is how one is named to the server, and its name.
type script struct{ command, name string }

// passenger is one step of a caller's.
type passenger struct {
	script   script
	message  Message
	args     []any
	deadline time.Time // of the caller; zero if it has none

	done  chan struct{}
	reply any // once it is done
	err   error
	left  bool // the caller did not wait; guarded by pipeline.mu
}

func newPipeline(rdb redis.UniversalClient, cluster bool, opts Options) *pipeline {
	p := &pipeline{rdb: rdb, cluster: cluster, opts: opts, lines: map[place]*line{}}
	p.idle = sync.NewCond(&p.mu)
	return p
}

// do sends a step, with those of others to the same place, and waits for its reply or for the end of ctx. Then the step may
// have been taken or not; one that was still waiting for a flight is not sent.
func (p *pipeline) do(ctx context.Context, s script, m Message, args []any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &passenger{script: s, message: m, args: args, done: make(chan struct{})}
	c.deadline, _ = ctx.Deadline()
	if to, l := p.enter(c); l != nil { //nolint:contextcheck // the context of no single caller may end a flight of others
		p.flyAlone(ctx, to, l, c)
	}
	select {
	case <-c.done:
		return c.reply, c.err
	case <-ctx.Done():
		p.mu.Lock()
		c.left = true
		p.mu.Unlock()
		return nil, ctx.Err()
	}
}

// enter lets a step wait in its line, and begins a flight if there may be one more. If it returns a line, the flight is the
// caller's own.
func (p *pipeline) enter(c *passenger) (place, *line) {
	var to place
	if p.cluster {
		to = place{c.message.VHost, c.message.Queue}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[to]
	if l == nil {
		l = &line{}
		p.lines[to] = l
	}
	if l.flights == 0 && p.keepsBriefly(c) {
		l.flights++
		return to, l
	}
	l.waiting = append(l.waiting, c)
	if l.flights < maxFlights {
		l.flights++
		go p.fly(to, l)
	}
	return to, nil
}

// keepsBriefly reports whether a flight cannot keep a caller beyond its deadline, nor for long: the store answered just now,
// so there is a connection, whose deadline is the caller's.
func (p *pipeline) keepsBriefly(c *passenger) bool {
	return p.answered.Load() && !c.deadline.IsZero() && time.Until(c.deadline) <= brief
}

// flyAlone sends the step of a caller that is alone, and leaves those that came meanwhile to another goroutine.
func (p *pipeline) flyAlone(ctx context.Context, to place, l *line, c *passenger) {
	p.sendWithin(ctx, []*passenger{c})
	if batch := p.board(to, l); batch != nil {
		go func() { //nolint:contextcheck // as above
			p.send(batch)
			p.fly(to, l)
		}()
	}
}

// fly sends one batch after the other, until nobody waits.
func (p *pipeline) fly(to place, l *line) {
	for batch := p.board(to, l); batch != nil; batch = p.board(to, l) {
		p.send(batch)
	}
}

// board takes the next batch out of a line, or ends the flight.
func (p *pipeline) board(to place, l *line) []*passenger {
	p.mu.Lock()
	defer p.mu.Unlock()
	var batch []*passenger
	for len(l.waiting) > 0 && len(batch) < maxBatch {
		if c := l.waiting[0]; !c.left {
			batch = append(batch, c)
		}
		l.waiting = l.waiting[1:]
	}
	if batch != nil {
		return batch
	}
	if l.flights--; l.flights == 0 {
		delete(p.lines, to)
		if len(p.lines) == 0 {
			p.idle.Broadcast()
		}
	}
	return nil
}

// send takes a batch to the server and back. The context of no single caller may end it, only the last deadline of all.
func (p *pipeline) send(batch []*passenger) {
	ctx, cancel := untilLast(batch)
	defer cancel()
	p.sendWithin(ctx, batch)
}

func (p *pipeline) sendWithin(ctx context.Context, batch []*passenger) {
	calls := p.calls(ctx, batch)
	pipe := p.rdb.Pipeline()
	for _, c := range calls {
		_ = pipe.Process(ctx, c) // queues it
	}
	_, err := pipe.Exec(ctx)
	p.answered.Store(err == nil)
	for _, c := range calls {
		if c.Err() == nil && err != nil && c.Val() == nil {
			c.SetErr(err)
		}
		c.arrive()
	}
}

// call is one command: the steps of a batch that have their script and their queue in common.
type call struct {
	*redis.Cmd
	of []*passenger
}

// NoRetry keeps a Cluster client from sending a batch again after an error that leaves open whether it was run. It is
// still redirected: a node that answers MOVED or ASK has run nothing.
func (*call) NoRetry() bool { return true }

func (p *pipeline) calls(ctx context.Context, batch []*passenger) []*call {
	var calls []*call
	for _, c := range batch {
		if to := together(calls, c); to != nil {
			to.of = append(to.of, c)
		} else {
			calls = append(calls, &call{of: []*passenger{c}})
		}
	}
	for _, c := range calls {
		c.Cmd = redis.NewCmd(ctx, p.command(c.of)...)
	}
	return calls
}

// together finds the call that a step may go with, if there is one.
func together(calls []*call, with *passenger) *call {
	for _, c := range calls {
		first := c.of[0]
		if first.script == with.script && first.message.Queue == with.message.Queue && first.message.VHost == with.message.VHost {
			return c
		}
	}
	return nil
}

// command spells out a call; scripts/record.lua describes its keys and arguments.
func (p *pipeline) command(of []*passenger) []any {
	first := of[0]
	q := p.opts.queueKey(first.message.VHost, first.message.Queue)
	out := make([]any, 0, 7+len(of)*(1+len(first.args)))
	out = append(out, first.script.command, first.script.name, 3+len(of), q+"index", q+"limit", q+"tombstones")
	for _, c := range of {
		out = append(out, recordKey(q, c.message))
	}
	out = append(out, p.opts.TTL.Milliseconds())
	for _, c := range of {
		out = append(out, c.args...)
	}
	return out
}

// arrive hands out the replies of a call, or its error.
func (c *call) arrive() {
	reply, err := c.Result()
	replies, _ := reply.([]any)
	if err == nil && len(replies) != len(c.of) {
		err = fmt.Errorf("%w: %.80q instead of a list of %d", ErrReply, fmt.Sprint(reply), len(c.of))
	}
	for i, to := range c.of {
		if to.err = err; err == nil {
			to.reply = replies[i]
			to.err, _ = replies[i].(error)
		}
		close(to.done)
	}
}

func untilLast(batch []*passenger) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, c := range batch {
		if c.deadline.IsZero() {
			return context.Background(), func() {}
		}
		if c.deadline.After(last) {
			last = c.deadline
		}
	}
	return context.WithDeadline(context.Background(), last)
}

// wait returns once no step is under way.
func (p *pipeline) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.lines) > 0 {
		p.idle.Wait()
	}
}
