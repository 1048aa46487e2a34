package main

import (
	"context"
	"runtime/debug"
	"sync/atomic"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

// counting groups the store's records while the broker is asked, which takes about as long.
type counting struct {
	cancel context.CancelFunc
	done   chan struct{}
	n      atomic.Int64 // records so far

	groups ops.Groups // when done
	err    error
}

// beginCounting begins to count the records for --groups, if --groups may be answered from them.
func (c *deadList) beginCounting(ctx context.Context, q *dlq, f deadletter.Filter) {
	if c.groups && !c.read && q.store != nil && q.records().Knows(f) {
		debug.SetGCPercent(400) // the process ends with its list, and collecting garbage less often makes that faster
		q.count(ctx, f)
	}
}

func (q *dlq) count(ctx context.Context, f deadletter.Filter) {
	ctx, cancel := context.WithCancel(ctx)
	counting := &counting{cancel: cancel, done: make(chan struct{})}
	q.counting = counting
	of := q.records()
	of.Counting = func(n int) { counting.n.Store(int64(n)) }
	go func() {
		defer close(counting.done)
		counting.groups, counting.err = of.Groups(ctx, f, 0)
	}()
}

// end stops the count, if it still goes on.
func (c *counting) end() {
	c.cancel()
	<-c.done
}

// wait shows progress until the count is done. of is the number of records; nil: not known.
func (c *counting) wait(p *term.Progress, of *int) (ops.Groups, error) {
	defer p.Finish()
	tick := time.NewTicker(100 * time.Millisecond)
	defer tick.Stop()
	for {
		select {
		case <-c.done:
			return c.groups, c.err
		case <-tick.C:
			n, all := int(c.n.Load()), -1
			if of != nil {
				all = max(*of, n)
			}
			p.Show("counting records", n, all)
		}
	}
}
