package bench

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/poll"
)

const (
	few    = 1000   // live counters in a queue, against Options.Live
	queues = 4      // of so few counters, to have enough to measure
	byHand = 50_000 // plain counters, for their size
	batch  = 1000   // of them in one pipeline
	chunk  = 20_000 // of ours between two looks at the clock
)

// Memory is what one counter takes in the store.
type Memory struct {
	What     string  `json:"what"`
	Counters int     `json:"counters"`
	Bytes    float64 `json:"bytes_each"` // growth of used_memory, by all that it takes: keys, index, tables
}

// population measures how size weighs: the same step on few and on many live counters, and what each takes.
type population struct {
	*ground
	until time.Time // the filling ends
	many  string    // the queue of many
	live  int       // counters in it
}

// steps to report: each round twice, and the fill.
func (p *population) steps() int { return 2*p.Rounds + p.Live/chunk + 2 }

func (p *population) measure(ctx context.Context, r *Result) error {
	small := &Case{Contest: Counter, Name: fewLive, Live: few}
	for range p.Rounds {
		p.step(small.Name)
		if err := p.onFew(ctx, small); err != nil {
			return fmt.Errorf("bench: %s: %w", small, err)
		}
	}
	if err := p.sizes(ctx, r); err != nil {
		return fmt.Errorf("bench: filling the store: %w", err)
	}
	large := &Case{Contest: Counter, Name: manyLive, Live: p.live}
	for range p.Rounds {
		p.step(large.Name)
		if err := p.onMany(ctx, large); err != nil {
			return fmt.Errorf("bench: %s: %w", large, err)
		}
	}
	r.addPopulation(small, large)
	return nil
}

// onFew charges each counter of some queues, new in each round, a second time.
func (p *population) onFew(ctx context.Context, c *Case) error {
	var names [queues]string
	for i := range names {
		names[i] = p.queueName()
	}
	if _, err := concurrently(ctx, queues*few, func(ctx context.Context, i int) error {
		return fail(ctx, p.ground, names[i%queues], i/queues)
	}); err != nil {
		return err
	}
	if !poll.Pause(ctx, moved) { // or their records would not have to be moved in the index, as those of the large queue have
		return ctx.Err()
	}
	return p.again(ctx, c, func(i int) (string, int) { return names[i%queues], i / queues })
}

// moved is longer than a record stays in its place in the index, however often it is charged.
const moved = 1100 * time.Millisecond

// stride is a prime, so that steps of it through the many counters meet each once, far from the one before.
const stride = 7919

// onMany charges as many of the large queue, none of them for the third time if there are enough.
func (p *population) onMany(ctx context.Context, c *Case) error {
	round := len(c.Rates)
	return p.again(ctx, c, func(i int) (string, int) { return p.many, (round*queues*few + i) * stride % p.live })
}

func (p *population) again(ctx context.Context, c *Case, pick func(i int) (queue string, message int)) error {
	run := len(c.Rates) + 1
	before := p.CPU()
	took, err := concurrently(ctx, queues*few, func(ctx context.Context, i int) error {
		queue, message := pick(i)
		answer, err := insist(ctx, func() (counter.Reply, error) {
			return p.counts.Fail(ctx, attempt(queue, message, run), counter.Failure{Limit: limit, Reason: reason})
		})
		if err == nil && answer.Failures < 2 {
			return fmt.Errorf("counter %d of queue %s is not live", message, queue)
		}
		return err
	})
	if err != nil {
		return err
	}
	c.add(sample{messages: queues * few, rate: queues * few / took.Seconds(), cpu: p.CPU().since(before)})
	return nil
}

// sizes fills the store with plain counters and then with ours, and sees it grow.
func (p *population) sizes(ctx context.Context, r *Result) error {
	p.step("plain counters")
	plain, err := p.growth(ctx, p.fillPlain)
	if err != nil {
		return err
	}
	p.many = p.queueName()
	ours, err := p.growth(ctx, p.fillOurs)
	if err != nil {
		return err
	}
	r.Memory = []Memory{
		{What: Strikes, Counters: p.live, Bytes: ours},
		{What: handINCR, Counters: byHand, Bytes: plain},
	}
	return nil
}

// growth is in bytes a counter.
func (p *population) growth(ctx context.Context, fill func(context.Context) (counters int, err error)) (float64, error) {
	before, err := p.memory(ctx)
	if err != nil {
		return 0, err
	}
	n, err := fill(ctx)
	if err != nil {
		return 0, err
	}
	after, err := p.memory(ctx)
	return (after - before) / float64(n), err
}

func (p *population) memory(ctx context.Context) (float64, error) {
	text, err := p.info(ctx, "Memory", "used_memory")
	if err != nil {
		return 0, err
	}
	return strconv.ParseFloat(text, 64)
}

func (p *population) fillPlain(ctx context.Context) (int, error) {
	queue := p.queueName()
	for done := 0; done < byHand; done += batch {
		pipe := p.plain.Pipeline()
		for i := range batch {
			key := p.Name + ":" + queue + ":" + id(done+i)
			pipe.Incr(ctx, key)
			pipe.Expire(ctx, key, counterTTL)
		}
		if _, err := pipe.Exec(ctx); err != nil {
			return 0, err
		}
	}
	return byHand, nil
}

// fillOurs adds counters until there are as many as were asked for, or the time is over.
func (p *population) fillOurs(ctx context.Context) (int, error) {
	for p.live < p.Live && (p.live == 0 || time.Now().Before(p.until)) {
		n := min(chunk, p.Live-p.live)
		p.step(fmt.Sprintf("%d live counters", p.live+n))
		_, err := concurrently(ctx, n, func(ctx context.Context, i int) error {
			return fail(ctx, p.ground, p.many, p.live+i)
		})
		if err != nil {
			return 0, err
		}
		p.live += n
	}
	return p.live, nil
}
