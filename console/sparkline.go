package console

import (
	"context"
	"fmt"
	"maps"
	"math"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strikesmq/strikes/ops"
)

// sampleEvery is how often the console reads all queues, so that a page has an hour to draw when it opens.
const sampleEvery = 10 * time.Second

// figures are those of the curves: messages a second in and out, messages that have failed and may be retried, and
// messages dead-lettered a minute. NaN is not known.
type figures [4]float64

type sample struct {
	at      time.Time
	figures figures
	dead    int64 // dead-lettered so far
}

// history keeps the samples of the last hour in memory, by queue.
type history struct {
	mu     sync.Mutex
	queues map[string][]sample // oldest first
}

// add keeps the present figures of a queue. An open first page reads more often than add keeps.
func (h *history) add(of ops.Status) {
	now := time.Now()
	s := sample{now, figures{math.NaN(), math.NaN(), float64(failing(of)), 0}, of.Dead.Count}
	if of.Rates != nil {
		s.figures[0], s.figures[1] = of.Rates.In, of.Rates.Out
	}
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := slices.DeleteFunc(h.queues[of.Queue], func(s sample) bool { return now.Sub(s.at) > time.Hour })
	if len(kept) > 0 {
		last := kept[len(kept)-1]
		if now.Sub(last.at) < sampleEvery-time.Second {
			return
		}
		s.figures[3] = float64(max(s.dead-last.dead, 0)) / now.Sub(last.at).Minutes()
	}
	h.queues[of.Queue] = append(kept, s)
}

// forget drops the samples of queues that were not sampled for an hour, such as deleted ones.
func (h *history) forget(now time.Time) {
	h.mu.Lock()
	defer h.mu.Unlock()
	maps.DeleteFunc(h.queues, func(_ string, s []sample) bool { return now.Sub(s[len(s)-1].at) > time.Hour })
}

func (h *history) of(queue string) []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	return slices.Clone(h.queues[queue])
}

func (c *Console) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		c.all.get(ctx, sampleEvery/2)
		c.causes.peek(overviewAge)
		_ = c.guarded(c.sweep)
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// idleAfter is how long the console keeps the data and the connection of a queue that no page uses.
const idleAfter = time.Minute

// sweep forgets queues and groups that no page uses, and the samples of deleted queues.
func (c *Console) sweep() {
	c.history.forget(time.Now())
	c.mu.Lock()
	defer c.mu.Unlock()
	for name, q := range c.queues {
		if q.idle() > idleAfter {
			delete(c.queues, name)
			c.running.Go(q.close) // which may wait for the broker
		}
	}
	for key, g := range c.grouped {
		if g.idle() > idleAfter {
			delete(c.grouped, key)
		}
	}
}

// curve is one line of an hour, for an SVG of 240 by 40. What it shows is in words beside it.
type curve struct {
	Name   string
	Now    string // its last value
	Most   string // its largest
	Points string
	From   float64 // its first x
	To     float64 // its last
}

// curves draws the samples of an hour that ends now.
func curves(samples []sample, now time.Time) (all []curve) {
	for i, kind := range []struct {
		name string
		text func(float64) string
	}{
		{"in", perSecond}, {"out", perSecond}, {"failing", func(v float64) string { return digits(int64(v)) }},
		{"dead-lettered", func(v float64) string { return fmt.Sprintf("%.1f/min", v) }},
	} {
		c, most := curve{Name: kind.name, Now: "–", Most: "–"}, 0.0
		known := slices.DeleteFunc(slices.Clone(samples), func(s sample) bool {
			return math.IsNaN(s.figures[i]) || now.Sub(s.at) > time.Hour
		})
		for _, s := range known {
			most = max(most, s.figures[i])
		}
		var points []string
		for n, s := range known {
			x, y := 240*(1-now.Sub(s.at).Hours()), 38-36*s.figures[i]/max(most, 1e-9)
			points = append(points, fmt.Sprintf("%.1f,%.1f", x, y))
			if n == 0 {
				c.From = x
			}
			c.To, c.Now, c.Most = x, kind.text(s.figures[i]), kind.text(most)
		}
		c.Points = strings.Join(points, " ")
		all = append(all, c)
	}
	return all
}
