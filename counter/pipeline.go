package counter

import (
	"context"
	"sync"
	"time"

	"github.com/redis/go-redis/v9"
)

// How much goes out at once. Two flights keep the server at work while the replies of the other are read; a batch is
// answered well within a read's timeout.
const (
	maxFlights = 2
	maxBatch   = 128
)

// pipeline sends the commands of concurrent callers together: what arrives while the flights of its line are under way
// goes out with the next. A caller that is alone waits for nobody. Nothing is ever sent twice: a connection that is lost
// leaves all commands of its batch undecided. It has goroutines only while commands are under way.
//
// (go-redis has an AutoPipeline. It is experimental, keeps goroutines until it is closed, which a client of the caller's
// leaves to nobody, and may send again what was written to a connection that broke.)
type pipeline struct {
	rdb redis.UniversalClient

	mu    sync.Mutex
	lines map[string]*line // with commands under way
	idle  *sync.Cond       // no lines
}

// line is what goes to one place: in a Cluster a slot, so that a master that is away delays nobody else's commands.
type line struct {
	flights int
	waiting []*command
}

// command is one of a caller's.
type command struct {
	*redis.Cmd
	deadline time.Time // of the caller; zero if it has none
	done     chan struct{}
	left     bool // the caller did not wait; guarded by pipeline.mu
}

// NoRetry keeps a Cluster client from sending a batch again after an error that leaves open whether it was run. It is
// still redirected: a node that answers MOVED or ASK has run nothing.
func (*command) NoRetry() bool { return true }

func newPipeline(rdb redis.UniversalClient) *pipeline {
	p := &pipeline{rdb: rdb, lines: map[string]*line{}}
	p.idle = sync.NewCond(&p.mu)
	return p
}

// do sends a command, with those of others to the same place, and waits for its reply or for the end of ctx. Then the
// command may have been run or not; one that was still waiting for a flight is not sent.
func (p *pipeline) do(ctx context.Context, place string, args ...any) (any, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	c := &command{Cmd: redis.NewCmd(ctx, args...), done: make(chan struct{})}
	c.deadline, _ = ctx.Deadline()
	p.enter(place, c) //nolint:contextcheck // the context of no single caller may end a flight
	select {
	case <-c.done:
		return c.Result()
	case <-ctx.Done():
		p.mu.Lock()
		c.left = true
		p.mu.Unlock()
		return nil, ctx.Err()
	}
}

// enter lets a command wait in its line, and begins a flight if there may be one more.
func (p *pipeline) enter(place string, c *command) {
	p.mu.Lock()
	defer p.mu.Unlock()
	l := p.lines[place]
	if l == nil {
		l = &line{}
		p.lines[place] = l
	}
	l.waiting = append(l.waiting, c)
	if l.flights < maxFlights {
		l.flights++
		go p.fly(place, l)
	}
}

// fly sends one batch after the other, until nobody waits.
func (p *pipeline) fly(place string, l *line) {
	for batch := p.board(place, l); batch != nil; batch = p.board(place, l) {
		p.send(batch)
	}
}

// board takes the next batch out of a line, or ends the flight.
func (p *pipeline) board(place string, l *line) []redis.Cmder {
	p.mu.Lock()
	defer p.mu.Unlock()
	var batch []redis.Cmder
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
		delete(p.lines, place)
		if len(p.lines) == 0 {
			p.idle.Broadcast()
		}
	}
	return nil
}

// send takes a batch to the server and back. The context of no single caller may end it, only the last deadline of all.
func (p *pipeline) send(batch []redis.Cmder) {
	ctx, cancel := untilLast(batch)
	defer cancel()
	pipe := p.rdb.Pipeline()
	_ = pipe.BatchProcess(ctx, batch...)
	_, err := pipe.Exec(ctx)
	for _, cmd := range batch {
		if cmd.Err() == nil && err != nil && cmd.(*command).Val() == nil {
			cmd.SetErr(err)
		}
		close(cmd.(*command).done)
	}
}

func untilLast(batch []redis.Cmder) (context.Context, context.CancelFunc) {
	var last time.Time
	for _, cmd := range batch {
		d := cmd.(*command).deadline
		if d.IsZero() {
			return context.Background(), func() {}
		}
		if d.After(last) {
			last = d
		}
	}
	return context.WithDeadline(context.Background(), last)
}

// wait returns once no command is under way.
func (p *pipeline) wait() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for len(p.lines) > 0 {
		p.idle.Wait()
	}
}
