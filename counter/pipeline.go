package counter

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/redis/go-redis/v9"
)

// Redis gets two flushes at a time, so that it works on one while the client reads the replies to the other. A Store
// gets one: a second one makes batches half as large, and a COMMIT costs a database more than a step. The server
// replies to a batch well within a read's timeout.
const (
	maxFlushes = 2
	maxBatch   = 128
)

// brief is how near a caller's deadline must be for the caller to send its own step. The caller notices a cancelled
// context at most this much later.
const brief = time.Second

// pipeline sends the steps of concurrent callers in batches. Steps that arrive while their line flushes go with the
// next flush, those of one kind on one queue as one command. A single caller does not wait, and sends its step itself
// if that is brief: a goroutine for each such step cost an ordered consumer a seventh of its rate. No step is sent
// twice: a lost connection leaves all steps of its batch undecided. A pipeline has goroutines only while steps are
// under way.
//
// (go-redis has an AutoPipeline. It is experimental, keeps goroutines until it is closed, and may send a command again
// whose connection broke.)
type pipeline struct {
	take    func(ctx context.Context, batch []*request) // sends a batch, and closes done of each request
	byQueue bool                                        // a batch is of one queue
	flushes int                                         // at a time in a line

	mu    sync.Mutex
	lines map[Queue]*line // with steps under way, see enter
	idle  *sync.Cond      // no lines

	answered atomic.Bool // the server replied to the last batch
}

type line struct {
	flushes int
	waiting []*request
}

// script is a command that runs a script, and the script's hash or source.
type script struct{ command, name string }

// request is one step of one caller.
type request struct {
	script   script
	message  Message
	args     []any
	taking   *taking   // instead of script and args: any Store
	deadline time.Time // of the caller; zero: none

	done  chan struct{}
	reply any // set before done is closed
	err   error
	left  bool // the caller no longer waits; guarded by pipeline.mu
}

func newPipeline(take func(context.Context, []*request), byQueue bool, flushes int) *pipeline {
	p := &pipeline{take: take, byQueue: byQueue, flushes: flushes, lines: map[Queue]*line{}}
	p.idle = sync.NewCond(&p.mu)
	return p
}

// do sends the step of a request, in a batch with others of its line, and waits for its reply or the end of ctx. At
// the end of ctx the step may or may not be taken; a step that still waits for a flush is not sent.
func (p *pipeline) do(ctx context.Context, r *request) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	r.done = make(chan struct{})
	r.deadline, _ = ctx.Deadline()
	if to, l := p.enter(r); l != nil { // one caller's context must not end the flush of others
		p.flushAlone(ctx, to, l, r)
	}
	select {
	case <-r.done:
		return r.reply, r.err
	case <-ctx.Done():
		p.mu.Lock()
		r.left = true
		p.mu.Unlock()
		return nil, ctx.Err()
	}
}

// enter puts a request in its line, and begins a flush if one more is allowed. In a Cluster each queue has a line, so
// a master that is down delays only its queues. Over a Store each queue has one too, because a Save is of one queue.
// Otherwise there is one line, that of the zero Queue. If enter returns a line, the caller itself must flush.
func (p *pipeline) enter(r *request) (Queue, *line) {
	var to Queue
	if p.byQueue {
		to = Queue{r.message.VHost, r.message.Queue}
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[to]
	if l == nil {
		l = &line{}
		p.lines[to] = l
	}
	if l.flushes == 0 && p.isBrief(r) {
		l.flushes++
		return to, l
	}
	l.waiting = append(l.waiting, r)
	if l.flushes < p.flushes {
		l.flushes++
		go p.flush(to, l)
	}
	return to, nil
}

// isBrief reports whether a flush keeps its caller only briefly, and never beyond its deadline: the store has just
// replied, so there is a connection, which obeys the caller's deadline.
func (p *pipeline) isBrief(r *request) bool {
	return p.answered.Load() && !r.deadline.IsZero() && time.Until(r.deadline) <= brief
}

// flushAlone sends the request of a caller that is alone, and leaves requests that arrive meanwhile to another
// goroutine.
func (p *pipeline) flushAlone(ctx context.Context, to Queue, l *line, r *request) {
	p.take(ctx, []*request{r})
	if batch := p.next(to, l); batch != nil {
		go func() {
			p.send(batch)
			p.flush(to, l)
		}()
	}
}

// flush sends one batch after the other, until no request waits.
func (p *pipeline) flush(to Queue, l *line) {
	for batch := p.next(to, l); batch != nil; batch = p.next(to, l) {
		p.send(batch)
	}
}

// next takes the next batch out of a line, or ends the flush.
func (p *pipeline) next(to Queue, l *line) []*request {
	p.mu.Lock()
	defer p.mu.Unlock()
	var batch []*request
	for len(l.waiting) > 0 && len(batch) < maxBatch {
		if r := l.waiting[0]; !r.left {
			batch = append(batch, r)
		}
		l.waiting = l.waiting[1:]
	}
	if batch != nil {
		return batch
	}
	if l.flushes--; l.flushes == 0 {
		delete(p.lines, to)
		if len(p.lines) == 0 {
			p.idle.Broadcast()
		}
	}
	return nil
}

// send sends a batch and reads its replies. Only the last deadline of all callers ends it.
func (p *pipeline) send(batch []*request) {
	ctx, cancel := untilLast(batch)
	defer cancel()
	p.take(ctx, batch)
}

// sendScripts sends a batch to Redis.
func (c *client) sendScripts(ctx context.Context, batch []*request) {
	calls := c.calls(ctx, batch)
	pipe := c.rdb.Pipeline()
	for _, one := range calls {
		_ = pipe.Process(ctx, one) // queues it
	}
	_, err := pipe.Exec(ctx)
	c.pipe.answered.Store(err == nil)
	for _, one := range calls {
		if one.Err() == nil && err != nil && one.Val() == nil {
			one.SetErr(err)
		}
		one.distribute()
	}
}

// call is one command: the requests of a batch with the same script and queue.
type call struct {
	*redis.Cmd
	of []*request
}

// NoRetry keeps a Cluster client from sending a batch again after an error that leaves undecided whether it was run.
// The client still follows redirects: a node that replies MOVED or ASK has run nothing.
func (*call) NoRetry() bool { return true }

func (c *client) calls(ctx context.Context, batch []*request) []*call {
	var calls []*call
	for _, r := range batch {
		if to := callFor(calls, r); to != nil {
			to.of = append(to.of, r)
		} else {
			calls = append(calls, &call{of: []*request{r}})
		}
	}
	for _, one := range calls {
		one.Cmd = redis.NewCmd(ctx, c.command(one.of)...)
	}
	return calls
}

// callFor finds the call that a request may join, if there is one: the script finds the arguments of a step by their
// number.
func callFor(calls []*call, r *request) *call {
	for _, c := range calls {
		first := c.of[0]
		if first.script == r.script && len(first.args) == len(r.args) && first.message.Queue == r.message.Queue &&
			first.message.VHost == r.message.VHost {
			return c
		}
	}
	return nil
}

// command returns a call's command; scripts/record.lua describes its keys and arguments.
func (c *client) command(of []*request) []any {
	first := of[0]
	q := c.opts.queueKey(first.message.VHost, first.message.Queue)
	out := make([]any, 0, 8+len(of)*(1+len(first.args)))
	out = append(out, first.script.command, first.script.name, 4+len(of), q+setIndex, q+docLimit,
		q+docTombstones, q+setDead)
	for _, r := range of {
		out = append(out, recordKey(q, r.message))
	}
	out = append(out, c.opts.TTL.Milliseconds())
	for _, r := range of {
		out = append(out, r.args...)
	}
	return out
}

// distribute gives each request its reply, or the error of the call.
func (c *call) distribute() {
	reply, err := c.Result()
	replies, _ := reply.([]any)
	if err == nil && len(replies) != len(c.of) {
		err = fmt.Errorf("%w: got %.80q, want a list of %d", ErrReply, fmt.Sprint(reply), len(c.of))
	}
	for i, r := range c.of {
		if r.err = err; err == nil {
			r.reply = replies[i]
			r.err, _ = replies[i].(error)
		}
		close(r.done)
	}
}

// hasLeft reports whether the caller of a request no longer waits.
func (p *pipeline) hasLeft(r *request) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	return r.left
}

func untilLast(batch []*request) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, r := range batch {
		if r.deadline.IsZero() {
			return context.Background(), func() {}
		}
		if r.deadline.After(last) {
			last = r.deadline
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
