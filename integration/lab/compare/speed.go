package compare

import (
	"context"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/integration/lab/ways"
	"github.com/strikesmq/strikes/publisher"
)

const (
	speedConcurrency = 8
	speedPrefetch    = 100
	speedWithin      = time.Minute
	rounds           = 5
)

// rates are messages a second with no faults, in one process.
type rates struct {
	healthy, failing float64 // failing: one message in ten fails once
	ratio, failingTo float64 // to the bare loop of the same round
}

// measure takes the medians of some rounds. The ratio is taken within a round, so that other load weighs on both.
func (l *lab) measure(ctx context.Context, w *ways.Way, kind string, messages int) (r rates, err error) {
	var all [4][]float64
	for range rounds {
		var got [3]float64
		for i, of := range []struct {
			way     *ways.Way
			failing int
		}{{ways.Find("bare"), 0}, {w, 0}, {w, 10}} {
			if got[i], err = l.rate(ctx, of.way, kind, messages, of.failing); err != nil {
				return r, fmt.Errorf("%s, %d %% failing: %w", of.way.Name, of.failing, err)
			}
		}
		for i, x := range []float64{got[1], got[2], got[1] / got[0], got[2] / got[0]} {
			all[i] = append(all[i], x)
		}
	}
	return rates{median(all[0]), median(all[1]), median(all[2]), median(all[3])}, nil
}

func median(all []float64) float64 { return slices.Sorted(slices.Values(all))[len(all)/2] }

// rate measures one round: from the first attempt until every message was handled.
func (l *lab) rate(ctx context.Context, w *ways.Way, kind string, messages, failing int) (perSecond float64,
	err error) {
	if err := l.store.Flush(ctx); err != nil {
		return 0, err
	}
	q := ways.NewQueues(l.broker, w, kind, "compare-speed", 0)
	if err := q.Declare(); err != nil {
		return 0, err
	}
	defer func() {
		if e := q.Remove(); err == nil {
			err = e
		}
	}()
	all := make([]publisher.Message, messages)
	for i := range all {
		j := work.Job{Seq: i + 1, Do: ledger.Succeed}
		if failing > 0 && i%(100/failing) == 0 {
			j.Do = ledger.Fail
		}
		all[i] = publisher.Message{Key: q.Name, Publishing: amqp.Publishing{MessageId: j.ID(), Body: j.Body()}}
	}
	if err := q.Publish(ctx, all); err != nil {
		return 0, err
	}
	limited, stop := context.WithTimeout(ctx, speedWithin)
	defer stop()
	m := &meter{left: messages, over: stop, acksAll: w.Name == "bare", tried: make([]bool, messages+1),
		done: make([]bool, messages+1)}
	c := &ways.Client{Handle: m.handle, Spec: ways.Spec{
		Way: w.Name, Queue: q.Name, AMQP: l.broker.URL, Redis: l.store.URL, Processes: 1,
		Concurrency: speedConcurrency, Prefetch: speedPrefetch,
	}}
	if err := w.Work(limited, c); err != nil {
		return 0, err
	}
	if m.left > 0 {
		return 0, fmt.Errorf("%d of %d messages were not handled within %v", m.left, messages, speedWithin)
	}
	return float64(messages) / m.ended.Sub(m.began).Seconds(), ctx.Err()
}

// meter is the handler of a round.
type meter struct {
	mu           sync.Mutex
	left         int
	over         func()
	acksAll      bool // so that a failed message does not come again
	tried, done  []bool
	began, ended time.Time
}

func (m *meter) handle(d *amqp.Delivery) error {
	j, err := work.Read(d.Body)
	if err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.began.IsZero() {
		m.began = time.Now()
	}
	fails := j.Do == ledger.Fail && !m.tried[j.Seq]
	m.tried[j.Seq] = true
	if (!fails || m.acksAll) && !m.done[j.Seq] {
		m.done[j.Seq] = true
		if m.left--; m.left == 0 {
			m.ended = time.Now()
			m.over()
		}
	}
	if fails {
		return work.ErrJob
	}
	return nil
}
