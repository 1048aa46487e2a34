package figures

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/integration/internal/rig"
)

// outageFirst compares how fast first deliveries are handled in windows with the store up and down, in turn, so that
// what else the machine does falls on both.
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
	f.DurationVar(&o.window, "window", 5*time.Second, "of each outage, and of the time beside it that it is compared with")
	f.IntVar(&o.concurrency, "concurrency", 16, "handlers in parallel")
	f.StringVar(&o.body, "handler", "10ms", "time that a handler takes")
	f.StringVar(&o.how, "how", rig.Killed, "the store is away: kill (connections refused) or freeze (no answer)")
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

func (o *outageFirst) measure(ctx context.Context, s *setup) (any, []string, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	f := &feeder{on: s, body: o.body, fail: cancel}
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
	if _, err := p.until(ctx, time.Minute, "handlers to run", func(l line) bool {
		return l.Tally.Handled > 1000
	}); err != nil {
		return nil, nil, errors.Join(err, f.err)
	}
	w := windows{on: s, process: p, feeder: f, how: o.how, each: o.window}
	m, err := w.compare(ctx, max(1, int(o.down/o.window)))
	if err != nil {
		return nil, nil, errors.Join(err, f.err)
	}
	var missed []string
	if m.Ratio < 0.95 {
		missed = append(missed, fmt.Sprintf("%.3f of the rate", m.Ratio))
	}
	if m.Starved > 0 || m.Held > 0 {
		missed = append(missed, fmt.Sprintf("%d windows without messages, %d steps held: this measures something else",
			m.Starved, m.Held))
	}
	return m, missed, p.stop()
}

// windows are those in which the rate is taken.
type windows struct {
	on      *setup
	process *process
	feeder  *feeder
	how     string
	each    time.Duration
	m       outageFirstMeasured
}

// turns are the order of the two windows of a pair, with the store up and down: it changes, so that a machine that
// grows busier or quieter favours neither.
var turns = [2][2]bool{{false, true}, {true, false}}

func (w *windows) compare(ctx context.Context, n int) (outageFirstMeasured, error) {
	w.m = outageFirstMeasured{How: w.how, Windows: n}
	ratios := make([]float64, n)
	for i := range ratios {
		rates := map[bool]float64{}
		for _, down := range turns[i%2] {
			var err error
			if rates[down], err = w.one(ctx, down); err != nil {
				return w.m, err
			}
		}
		ratios[i] = ratio(rates[true], rates[false])
		w.on.say("pair %d of %d: %.0f/s up, %.0f/s down", i+1, n, rates[false], rates[true])
	}
	w.m.Ratio = ratio(w.m.Down.PerSecond, w.m.Up.PerSecond)
	w.m.Median = median(ratios, func(r float64) float64 { return r })
	return w.m, nil
}

// one takes the rate of one window.
func (w *windows) one(ctx context.Context, down bool) (perSecond float64, err error) {
	if !down {
		return w.pass(ctx, &w.m.Up)
	}
	if err := w.on.store.Away(w.how); err != nil {
		return 0, err
	}
	perSecond, err = w.pass(ctx, &w.m.Down)
	return perSecond, errors.Join(err, w.on.store.Back(ctx, w.how))
}

// pass lets a window pass.
func (w *windows) pass(ctx context.Context, r *rate) (perSecond float64, err error) {
	w.feeder.starved.Store(false)
	from, err := w.process.at(ctx, time.Now())
	if err != nil {
		return 0, err
	}
	to, err := w.process.at(ctx, from.At.Add(w.each))
	if err != nil {
		return 0, err
	}
	r.add(from, to)
	w.m.Held = to.Tally.Held
	if w.feeder.starved.Load() {
		w.m.Starved++
	}
	return float64(to.Tally.Handled-from.Tally.Handled) / to.At.Sub(from.At).Seconds(), nil
}
