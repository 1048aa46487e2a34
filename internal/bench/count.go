package bench

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"sync/atomic"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/counter"
)

const (
	callers      = 32 // of the store, at once
	stepsPerCase = 4  // for each message of the other contests
	limit        = 1000
)

// reason is kept with each counter: 40 bytes.
const reason = "payment service answered 503, no gateway"

// counterCases are steps on the store, each on counters of its own, and the least that a count could cost.
func counterCases() []*Case {
	return []*Case{
		{Contest: Counter, Name: stepFail, sample: steps(nil, fail)},
		{Contest: Counter, Name: "START", sample: steps(nil, start)},
		{Contest: Counter, Name: "END", sample: steps(start, end)},
		{Contest: Counter, Name: plainINCR, sample: steps(nil, incr)},
	}
}

// step takes one step for message i of a queue.
type step func(ctx context.Context, g *ground, queue string, i int) error

// steps measures one step each for many messages, after prepare was taken for them.
func steps(prepare, measured step) func(context.Context, *ground, int) (sample, error) {
	return func(ctx context.Context, g *ground, n int) (sample, error) {
		n *= stepsPerCase
		queue := g.queueName()
		if prepare != nil {
			if _, err := concurrently(ctx, n, func(ctx context.Context, i int) error { return prepare(ctx, g, queue, i) }); err != nil {
				return sample{}, err
			}
		}
		before := g.CPU()
		took, err := concurrently(ctx, n, func(ctx context.Context, i int) error { return measured(ctx, g, queue, i) })
		return sample{messages: n, rate: float64(n) / took.Seconds(), cpu: g.CPU().since(before)}, err
	}
}

// concurrently calls f for 0 to n-1 from so many callers.
func concurrently(ctx context.Context, n int, f func(context.Context, int) error) (took time.Duration, err error) {
	var taken atomic.Int64
	began := time.Now()
	group, ctx := errgroup.WithContext(ctx)
	for range callers {
		group.Go(func() error {
			for {
				i := int(taken.Add(1)) - 1
				if i >= n {
					return nil
				}
				if err := f(ctx, i); err != nil {
					return err
				}
			}
		})
	}
	err = group.Wait()
	return time.Since(began), err
}

// id is 36 bytes long, as a UUID is.
func id(i int) string { return fmt.Sprintf("01990000-0000-7000-8000-%012x", i) }

func attempt(queue string, i, run int) counter.Attempt {
	return counter.Attempt{
		Message: counter.Message{VHost: "/", Queue: queue, ID: id(i)},
		Token:   "bench-process-" + strconv.Itoa(i) + "-" + strconv.Itoa(run), Holder: "bench, pid 1",
	}
}

// patience is how often a step is taken again that the store did not answer within the 250 ms which a Counter grants it.
const patience = 20

// insist takes a step until the store answers, as a Consumer does: with the same token.
func insist(ctx context.Context, take func() (counter.Reply, error)) (answer counter.Reply, err error) {
	for range patience {
		var away *counter.StoreError
		if answer, err = take(); !errors.As(err, &away) || ctx.Err() != nil {
			break
		}
	}
	return answer, err
}

// fail is the first failure of a message.
func fail(ctx context.Context, g *ground, queue string, i int) error {
	a := attempt(queue, i, 0)
	a.First = true
	return g.failed(ctx, a, 1)
}

// failed charges a failure, and looks at the answer.
func (g *ground) failed(ctx context.Context, a counter.Attempt, charges int) error {
	answer, err := insist(ctx, func() (counter.Reply, error) {
		return g.counts.Fail(ctx, a, counter.Failure{Limit: limit, Reason: reason})
	})
	if err == nil && (answer.Verdict != counter.VerdictRequeue || answer.Failures != charges) {
		return fmt.Errorf("FAIL of message %s was answered %v, %d failures, not %d", a.ID, answer.Verdict, answer.Failures, charges)
	}
	return err
}

// start asks for a message that was redelivered before it ever failed.
func start(ctx context.Context, g *ground, queue string, i int) error {
	answer, err := insist(ctx, func() (counter.Reply, error) {
		return g.counts.Start(ctx, attempt(queue, i, 0), counter.ModeShared, limit)
	})
	if err == nil && answer.Verdict != counter.VerdictRun {
		return fmt.Errorf("START of message %s was answered %v", id(i), answer.Verdict)
	}
	return err
}

func end(ctx context.Context, g *ground, queue string, i int) error {
	_, err := insist(ctx, func() (counter.Reply, error) {
		return counter.Reply{}, g.counts.End(ctx, attempt(queue, i, 0), true)
	})
	return err
}

func incr(ctx context.Context, g *ground, queue string, i int) error {
	n, err := g.plain.Incr(ctx, g.Name+":"+queue+":"+id(i)).Result()
	if err == nil && n != 1 {
		return fmt.Errorf("INCR for message %s was answered %d", id(i), n)
	}
	return err
}
