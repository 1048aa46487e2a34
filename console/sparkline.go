package console

import (
	"context"
	"fmt"
	"html/template"
	"math"
	"strings"
	"sync"
	"time"
)

const (
	// sampleEvery is how often the console reads all queues, so that a page has an hour to draw when it opens.
	sampleEvery = 10 * time.Second
	// samplesKept are those of an hour, and some: an open page brings a few more.
	samplesKept = int(time.Hour/sampleEvery) + 60
)

// sample is a queue at one moment.
type sample struct {
	At      time.Time
	In, Out float64 // messages a second; NaN: not known
	Failing float64 // messages that have failed and may be retried
	Dead    float64 // dead-lettered so far
}

// history keeps the samples of the last hour in memory, by queue.
type history struct {
	mu     sync.Mutex
	queues map[string][]sample // oldest first
}

func (h *history) add(queue string, s sample) {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.queues[queue]
	if n := len(kept); n > 0 && s.At.Sub(kept[n-1].At) < sampleEvery-time.Second {
		return // the page of the queue brings more than are kept
	}
	if len(kept) >= samplesKept {
		kept = append(kept[:0:0], kept[len(kept)-samplesKept+1:]...)
	}
	h.queues[queue] = append(kept, s)
}

// of returns the samples of a queue within the last hour.
func (h *history) of(queue string, now time.Time) []sample {
	h.mu.Lock()
	defer h.mu.Unlock()
	kept := h.queues[queue]
	for len(kept) > 0 && now.Sub(kept[0].At) > time.Hour {
		kept = kept[1:]
	}
	return append([]sample(nil), kept...)
}

// sample reads all queues until ctx is done.
func (c *Console) sample(ctx context.Context) {
	tick := time.NewTicker(sampleEvery)
	defer tick.Stop()
	for {
		c.all.get(ctx, sampleEvery/2)
		_ = c.guarded(c.sweep)
		if c.examiner.due() {
			c.examineAll()
		}
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
	}
}

// idleAfter is how long the console keeps the data and the connection of a queue that no page uses.
const idleAfter = time.Minute

// sweep forgets queues and groups that no page uses.
func (c *Console) sweep() {
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

// curve is one line of an hour, drawn by the server.
type curve struct {
	Name   string
	Now    string // its last value
	Most   string // its largest
	Points string // of an SVG polyline within curveWidth and curveHeight
	Filled string // the same, closed at the bottom
}

const (
	curveWidth  = 240
	curveHeight = 40
)

// curves draws the samples of an hour that ends now.
func curves(samples []sample, now time.Time) []curve {
	of := func(value func(sample) float64) []float64 {
		out := make([]float64, len(samples))
		for i, s := range samples {
			out[i] = value(s)
		}
		return out
	}
	count := func(v float64) string { return digits(int64(v)) }
	died := of(func(s sample) float64 { return s.Dead })
	for i := len(died) - 1; i > 0; i-- {
		died[i] = max(died[i]-died[i-1], 0) / max(samples[i].At.Sub(samples[i-1].At).Minutes(), 1e-3)
	}
	if len(died) > 0 {
		died[0] = 0
	}
	return []curve{
		draw("in", samples, now, of(func(s sample) float64 { return s.In }), perSecond),
		draw("out", samples, now, of(func(s sample) float64 { return s.Out }), perSecond),
		draw("retrying", samples, now, of(func(s sample) float64 { return s.Failing }), count),
		draw("dead-lettered", samples, now, died, func(v float64) string { return fmt.Sprintf("%.1f/min", v) }),
	}
}

func draw(name string, samples []sample, now time.Time, values []float64, text func(float64) string) curve {
	c := curve{Name: name, Now: "–", Most: "–"}
	most, known := 0.0, false
	for _, v := range values {
		if !math.IsNaN(v) {
			most, known = max(most, v), true
		}
	}
	if !known {
		return c
	}
	var b strings.Builder
	first, last := -1.0, 0.0
	for i, v := range values {
		if math.IsNaN(v) {
			continue
		}
		x := curveWidth * (1 - now.Sub(samples[i].At).Hours())
		y := curveHeight - 2 - (curveHeight-4)*v/max(most, 1e-9)
		if first < 0 {
			first = x
		}
		last = x
		fmt.Fprintf(&b, "%.1f,%.1f ", x, y)
		c.Now = text(v)
	}
	c.Most, c.Points = text(most), strings.TrimSpace(b.String())
	c.Filled = fmt.Sprintf("%.1f,%d %s %.1f,%d", first, curveHeight, c.Points, last, curveHeight)
	return c
}

// SVG draws the curve. What it shows is in words beside it.
func (c curve) SVG() template.HTML {
	if c.Points == "" {
		return ""
	}
	return template.HTML(fmt.Sprintf(
		`<svg class="curve" viewBox="0 0 %d %d" preserveAspectRatio="none" aria-hidden="true" focusable="false">`+
			//nolint:gosec // numbers only
			`<polygon points="%s"/><polyline points="%s"/></svg>`, curveWidth, curveHeight, c.Filled, c.Points))
}

// bar draws a part of a whole.
func bar(part, whole int) template.HTML {
	if whole <= 0 {
		return ""
	}
	width := max(1, 100*float64(part)/float64(whole))
	return template.HTML(fmt.Sprintf(
		`<svg class="bar" viewBox="0 0 100 10" preserveAspectRatio="none" aria-hidden="true" focusable="false">`+
			//nolint:gosec // numbers only
			`<rect class="whole" width="100" height="10"/><rect width="%.1f" height="10"/></svg>`, width))
}
