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
	callers      = 32 // of the store
	stepsPerCase = 4  // for each message of the other contests
	limit        = 1000
)

// reason is kept with each record: 40 bytes.
const reason = "payment service answered 503, no gateway"

// step takes one step for message i of a queue.
type step func(ctx context.Context, b *bench, queue string, i int) error

// stepping measures one step each for many messages, after prepare was taken for them.
func stepping(prepare, measured step) measurement {
	return func(ctx context.Context, b *bench, _ *Case, n int) (sample, error) {
		n *= stepsPerCase
		queue := b.queueName()
		if prepare != nil {
			if _, err := concurrently(ctx, n, func(ctx context.Context, i int) error {
				return prepare(ctx, b, queue, i)
			}); err != nil {
				return sample{}, err
			}
		}
		before := b.cpu()
		took, err := concurrently(ctx, n, func(ctx context.Context, i int) error { return measured(ctx, b, queue, i) })
		return sample{messages: n, rate: float64(n) / took.Seconds(), cpu: b.cpu().since(before)}, err
	}
}

// concurrently calls f for 0 to n-1 from several goroutines.
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

func attempt(queue string, i, number int) counter.Attempt {
	return counter.Attempt{
		Message: counter.Message{VHost: "/", Queue: queue, ID: id(i)},
		Token:   "bench-process-" + strconv.Itoa(i) + "-" + strconv.Itoa(number), Consumer: "bench, pid 1",
	}
}

// patience is how often a step is repeated that the store did not answer within the Counter's 250 ms.
const patience = 20

// insist repeats a step until the store answers, as a Consumer does: with the same token.
func insist(ctx context.Context, take func() (counter.Reply, error)) (reply counter.Reply, err error) {
	for range patience {
		var away *counter.StoreError
		if reply, err = take(); !errors.As(err, &away) || ctx.Err() != nil {
			break
		}
	}
	return reply, err
}

// fail counts the first failure of a message.
func fail(ctx context.Context, b *bench, queue string, i int) error {
	a := attempt(queue, i, 0)
	a.First = true
	reply, err := b.failed(ctx, a)
	if err == nil && (reply.Code != counter.ReplyRequeue || reply.Failures != 1) {
		return fmt.Errorf("FAIL of message %s: code %v, %d failures, want 1", a.ID, reply.Code, reply.Failures)
	}
	return err
}

// failed counts a failure.
func (b *bench) failed(ctx context.Context, a counter.Attempt) (counter.Reply, error) {
	return insist(ctx, func() (counter.Reply, error) {
		return b.counts.Fail(ctx, a, counter.Failure{Limit: limit, Reason: reason})
	})
}

// start is the step for a message that was redelivered before it ever failed.
func start(ctx context.Context, b *bench, queue string, i int) error {
	reply, err := insist(ctx, func() (counter.Reply, error) {
		return b.counts.Start(ctx, attempt(queue, i, 0), counter.ModeShared, limit)
	})
	if err == nil && reply.Code != counter.ReplyRun {
		return fmt.Errorf("START of message %s: code %v", id(i), reply.Code)
	}
	return err
}

func end(ctx context.Context, b *bench, queue string, i int) error {
	_, err := insist(ctx, func() (counter.Reply, error) {
		return counter.Reply{}, b.counts.End(ctx, attempt(queue, i, 0), true)
	})
	return err
}

func incr(ctx context.Context, b *bench, queue string, i int) error {
	n, err := b.plain.Incr(ctx, b.name+":"+queue+":"+id(i)).Result()
	if err == nil && n != 1 {
		return fmt.Errorf("INCR for message %s: %d, want 1", id(i), n)
	}
	return err
}
