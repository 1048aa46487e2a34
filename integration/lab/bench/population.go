package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/strikesmq/strikes/internal/pause"
)

const (
	few     = 1000   // live counters in a queue, compared with -live
	queues  = 4      // of few counters each, to have enough to measure
	plainly = 50_000 // plain counters, for their size
	batch   = 1000   // of them in one pipeline
	chunk   = 20_000 // of ours between two checks of the time

	week = 7 * 24 * time.Hour // for which counters live

	timeGoal = 1.2 // of a step among many counters to one among few, at most
)

// memory is what one counter takes in the store.
type memory struct {
	What     string  `json:"what"`
	Counters int     `json:"counters"`
	Bytes    float64 `json:"bytes_each"` // growth of used_memory: keys, index, tables
}

// population measures the same step among few and among many live counters, and the memory of each counter.
type population struct {
	*bench
	until  time.Time // the filling ends
	many   string    // the queue of many
	filled int       // counters in it
}

// steps of the progress: each round twice, and the fill.
func (p *population) steps() int { return 2*p.rounds + p.live/chunk + 2 }

func (p *population) measure(ctx context.Context, r *result) error {
	small := &Case{Contest: steps, Name: "FAIL, few live", Live: few}
	if err := p.repeat(ctx, small, p.amongFew); err != nil {
		return err
	}
	if err := p.fillStore(ctx, r); err != nil {
		return fmt.Errorf("filling the store: %w", err)
	}
	large := &Case{Contest: steps, Name: "FAIL, many live", Live: p.filled}
	if err := p.repeat(ctx, large, p.amongMany); err != nil {
		return err
	}
	r.Cases = append(r.Cases, small, large)
	taken := compare(large, small, timeGoal)
	taken.Unit = unitTime
	taken.summarise(small.Rates, large.Rates) // the time is the inverse
	r.Ratios = append(r.Ratios, taken)
	return nil
}

func (p *population) repeat(ctx context.Context, c *Case, sample func(context.Context, *Case) error) error {
	for range p.rounds {
		p.step(c.Name)
		if err := sample(ctx, c); err != nil {
			return fmt.Errorf("%s: %w", c, err)
		}
	}
	return nil
}

// moved is longer than a record keeps its place in the index.
const moved = 1100 * time.Millisecond

// amongFew counts a second failure of each message of some queues, new in each round.
func (p *population) amongFew(ctx context.Context, c *Case) error {
	var names [queues]string
	for i := range names {
		names[i] = p.queueName()
	}
	if _, err := concurrently(ctx, queues*few, func(ctx context.Context, i int) error {
		return fail(ctx, p.bench, names[i%queues], i/queues)
	}); err != nil {
		return err
	}
	if !pause.For(ctx, moved) { // the records of the large queue move in the index, so these have to
		return ctx.Err()
	}
	return p.again(ctx, c, func(i int) (string, int) { return names[i%queues], i / queues })
}

// stride is a prime: steps of it through the many counters meet each once, far from the one before.
const stride = 7919

// amongMany counts as many failures in the large queue, none the third of a message if there are enough.
func (p *population) amongMany(ctx context.Context, c *Case) error {
	round := len(c.Rates)
	return p.again(ctx, c, func(i int) (string, int) { return p.many, (round*queues*few + i) * stride % p.filled })
}

func (p *population) again(ctx context.Context, c *Case, pick func(i int) (queue string, message int)) error {
	number := len(c.Rates) + 1
	before := p.cpu()
	took, err := concurrently(ctx, queues*few, func(ctx context.Context, i int) error {
		queue, message := pick(i)
		reply, err := p.failed(ctx, attempt(queue, message, number))
		if err == nil && reply.Failures < 2 {
			return fmt.Errorf("counter %d of queue %s is not live", message, queue)
		}
		return err
	})
	if err == nil {
		c.add(sample{messages: queues * few, rate: queues * few / took.Seconds(), cpu: p.cpu().since(before)})
	}
	return err
}

// fillStore adds plain counters and then ours, and measures the growth.
func (p *population) fillStore(ctx context.Context, r *result) error {
	p.step("plain counters")
	plain, err := p.growth(ctx, p.fillPlain)
	if err != nil {
		return err
	}
	p.many = p.queueName()
	ours, err := p.growth(ctx, p.fillOurs)
	r.Memory = []memory{{What: strikes, Counters: p.filled, Bytes: ours},
		{What: handINCR, Counters: plainly, Bytes: plain}}
	return err
}

// growth is in bytes a counter.
func (p *population) growth(ctx context.Context, fill func(context.Context) (counters int, err error)) (float64,
	error) {
	before, err := p.used(ctx)
	if err != nil {
		return 0, err
	}
	n, err := fill(ctx)
	if err != nil {
		return 0, err
	}
	after, err := p.used(ctx)
	return (after - before) / float64(n), err
}

func (p *population) used(ctx context.Context) (float64, error) {
	text, err := p.info(ctx, "Memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

func (p *population) fillPlain(ctx context.Context) (int, error) {
	queue := p.queueName()
	for done := 0; done < plainly; done += batch {
		pipe := p.plain.Pipeline()
		for i := range batch {
			key := p.name + ":" + queue + ":" + id(done+i)
			pipe.Incr(ctx, key)
			pipe.Expire(ctx, key, week)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return 0, err
		}
	}
	return plainly, nil
}

// fillOurs adds counters until there are -live of them, or the time is over.
func (p *population) fillOurs(ctx context.Context) (int, error) {
	for want := p.live; p.filled < want && (p.filled == 0 || time.Now().Before(p.until)); {
		n := min(chunk, want-p.filled)
		p.step(fmt.Sprintf("%d live counters", p.filled+n))
		if _, err := concurrently(ctx, n, func(ctx context.Context, i int) error {
			return fail(ctx, p.bench, p.many, p.filled+i)
		}); err != nil {
			return 0, err
		}
		p.filled += n
	}
	return p.filled, nil
}
