package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"slices"
	"time"

	"github.com/strikesmq/strikes/publisher"
)

// outageFirst compares how fast first deliveries are handled in windows with the store up and down, in turn, so that what
// else the machine does falls on both.
type outageFirst struct {
	down, window time.Duration
	concurrency  int
	how          string
	body         string
}

// backlog is kept in the queue, so that the producer is not what is measured.
const backlog = 2000

func (o *outageFirst) flags(f *flag.FlagSet) {
	f.DurationVar(&o.down, "for", 5*time.Minute, "time for which the store is down, in all")
	f.DurationVar(&o.window, "window", 15*time.Second, "of each outage, and between two")
	f.IntVar(&o.concurrency, "concurrency", 16, "handlers at once")
	f.StringVar(&o.body, "handler", "10ms", "time that a handler takes")
	f.StringVar(&o.how, "how", string(killed), "the store is away: kill (connections refused) or freeze (no answer)")
}

// rate is what was handled in all windows of one kind.
type rate struct {
	Handled   int     `json:"handled"`
	Seconds   float64 `json:"seconds"`
	PerSecond float64 `json:"per_second"`
	CPU       float64 `json:"cpu_microseconds_per_message"`
	cpu       time.Duration
}

func (r *rate) add(from, to line) {
	r.Handled += to.Tally.Handled - from.Tally.Handled
	r.Seconds += to.At.Sub(from.At).Seconds()
	r.cpu += to.CPU - from.CPU
	r.PerSecond, r.CPU = ratio(float64(r.Handled), r.Seconds), ratio(float64(r.cpu.Microseconds()), float64(r.Handled))
}

// outageFirstMeasured is what came of it.
type outageFirstMeasured struct {
	How     string  `json:"how"`
	Windows int     `json:"windows_each"`
	Up      rate    `json:"up"`
	Down    rate    `json:"down"`
	Ratio   float64 `json:"ratio"`
	Median  float64 `json:"median_ratio"`    // of a window to the one before it; for comparison
	Starved int     `json:"starved_windows"` // the queue was found empty
	Held    int     `json:"held"`            // steps on the store that were not answered: none is due
}

func (o *outageFirst) measure(ctx context.Context, s *site) (any, []string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &feeder{broker: s.broker, body: o.body, fail: cancel}
	if err := f.start(ctx); err != nil {
		return nil, nil, err
	}
	defer f.stop()
	spec := s.spec(o.concurrency)
	spec.Every = 50 * time.Millisecond
	p, err := spawn(spec)
	if err != nil {
		return nil, nil, err
	}
	defer p.end()
	if _, err := p.until(ctx, time.Minute, "handlers to run", func(l line) bool { return l.Tally.Handled > 1000 }); err != nil {
		return nil, nil, errors.Join(err, f.err)
	}
	m, err := o.windows(ctx, s, p, f)
	if err != nil {
		return nil, nil, errors.Join(err, f.err)
	}
	var missed []string
	if m.Ratio < 0.95 {
		missed = append(missed, fmt.Sprintf("%.3f of the rate", m.Ratio))
	}
	if m.Starved > 0 || m.Held > 0 {
		missed = append(missed, fmt.Sprintf("%d windows without messages, %d steps held: this measures something else", m.Starved, m.Held))
	}
	return m, missed, p.stop()
}

func (o *outageFirst) windows(ctx context.Context, s *site, p *process, f *feeder) (m outageFirstMeasured, err error) {
	m = outageFirstMeasured{How: o.how, Windows: max(1, int(o.down/o.window))}
	how := outage(o.how)
	ratios := make([]float64, m.Windows)
	for n := range ratios {
		up, err := o.one(ctx, p, f, &m, &m.Up)
		if err != nil {
			return m, err
		}
		if err := s.store.away(how); err != nil {
			return m, err
		}
		down, err := o.one(ctx, p, f, &m, &m.Down)
		if err := errors.Join(err, s.store.back(ctx, how)); err != nil {
			return m, err
		}
		ratios[n] = ratio(down, up)
		s.say("window %d of %d: %.0f/s up, %.0f/s down", n+1, m.Windows, m.Up.PerSecond, m.Down.PerSecond)
	}
	m.Ratio = ratio(m.Down.PerSecond, m.Up.PerSecond)
	m.Median = median(ratios, func(r float64) float64 { return r })
	return m, nil
}

// one lets a window pass.
func (o *outageFirst) one(ctx context.Context, p *process, f *feeder, m *outageFirstMeasured, r *rate) (perSecond float64, err error) {
	f.starved.Store(false)
	from, err := p.at(ctx, time.Now())
	if err != nil {
		return 0, err
	}
	to, err := p.at(ctx, from.At.Add(o.window))
	if err != nil {
		return 0, err
	}
	r.add(from, to)
	m.Held = to.Tally.Held
	if f.starved.Load() {
		m.Starved++
	}
	return float64(to.Tally.Handled-from.Tally.Handled) / to.At.Sub(from.At).Seconds(), nil
}

// publishMore publishes so many messages of one body.
func publishMore(ctx context.Context, b *broker, p *publisher.Publisher, body string, n int) error {
	return b.publish(ctx, p, slices.Repeat([]string{body}, n)...)
}
