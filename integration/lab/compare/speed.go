package compare

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/audit"
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
func (l *lab) measure(ctx context.Context, w *way, kind string, messages int) (r rates, err error) {
	var all [4][]float64
	for range rounds {
		var got [3]float64
		for i, of := range []struct {
			way     *way
			failing int
		}{{findWay("bare"), 0}, {w, 0}, {w, 10}} {
			if got[i], err = l.rate(ctx, of.way, kind, messages, of.failing); err != nil {
				return r, fmt.Errorf("%s, %d %% failing: %w", of.way.name, of.failing, err)
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
func (l *lab) rate(ctx context.Context, w *way, kind string, messages, failing int) (perSecond float64, err error) {
	if err := l.store.Flush(ctx); err != nil {
		return 0, err
	}
	q := newQueues(l.broker, w, kind, "compare-speed", 0)
	if err := q.declare(); err != nil {
		return 0, err
	}
	defer func() {
		if e := q.remove(); err == nil {
			err = e
		}
	}()
	jobs := make([]job, messages)
	for i := range jobs {
		jobs[i] = job{Seq: i + 1, Do: audit.Succeed}
		if failing > 0 && i%(100/failing) == 0 {
			jobs[i].Do = audit.Fail
		}
	}
	if err := q.publish(ctx, jobs); err != nil {
		return 0, err
	}
	limited, stop := context.WithTimeout(ctx, speedWithin)
	defer stop()
	m := &meter{left: messages, over: stop, acksAll: w.name == "bare", tried: make([]bool, messages+1),
		done: make([]bool, messages+1)}
	c := &client{way: w, handle: m.handle, spec: spec{
		Way: w.name, Queue: q.name, AMQP: l.broker.URL, Redis: l.store.URL, Processes: 1,
		Concurrency: speedConcurrency, Prefetch: speedPrefetch,
	}}
	if err := w.work(limited, c); err != nil {
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
	var j job
	if err := json.Unmarshal(d.Body, &j); err != nil {
		return err
	}
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.began.IsZero() {
		m.began = time.Now()
	}
	fails := j.Do == audit.Fail && !m.tried[j.Seq]
	m.tried[j.Seq] = true
	if (!fails || m.acksAll) && !m.done[j.Seq] {
		m.done[j.Seq] = true
		if m.left--; m.left == 0 {
			m.ended = time.Now()
			m.over()
		}
	}
	if fails {
		return errJob
	}
	return nil
}
