package figures

import (
	"context"
	"flag"
	"fmt"
	"slices"
	"time"
)

// drain compares how fast a full queue is worked off without and with a kill of the broker, in turn.
type drain struct {
	messages, concurrency, rounds int
	after                         int
	body                          string
}

func (d *drain) flags(f *flag.FlagSet) {
	f.IntVar(&d.messages, "messages", 10000, "in the queue")
	f.IntVar(&d.concurrency, "concurrency", 16, "handlers in parallel")
	f.IntVar(&d.rounds, "rounds", 3, "times that each is measured")
	f.IntVar(&d.after, "after", 500, "messages handled when the broker is killed")
	f.StringVar(&d.body, "handler", "5ms", "time that a handler takes")
}

// drainRound is one comparison. Undisturbed is how long the messages that were left at the kill take without one.
type drainRound struct {
	Undisturbed float64 `json:"undisturbed_seconds"`
	Left        int     `json:"left"`               // when the broker was killed
	Away        float64 `json:"broker_away"`        // seconds from the kill to an answer
	Reconnected float64 `json:"first_run_after"`    // seconds from the answer to the first run of a handler
	Drained     float64 `json:"drained_after"`      // seconds from the answer until all was acked
	Ratio       float64 `json:"ratio"`              // of Drained to Undisturbed
	Working     float64 `json:"ratio_from_1st_run"` // the same, from the first run of a handler
	Repeated    int     `json:"runs_repeated"`      // their acks were lost with the broker
	Again       int     `json:"redelivered_runs"`   // after the kill
}

// drainMeasured is all of them. The median is compared with the promise.
type drainMeasured struct {
	Rounds []drainRound `json:"rounds"`
	Ratio  float64      `json:"median_ratio"`
	Store  kept         `json:"store"`
	Dead   int          `json:"dead_letters"`
}

const drainedWithin = 1.5

func (d *drain) measure(ctx context.Context, s *setup) (any, []string, error) {
	var m drainMeasured
	for n := range d.rounds {
		r, err := d.round(ctx, s)
		if err != nil {
			return nil, nil, err
		}
		s.say("round %d of %d: %+v", n+1, d.rounds, r)
		m.Rounds = append(m.Rounds, r)
	}
	m.Ratio = median(m.Rounds, func(r drainRound) float64 { return r.Ratio })
	var err error
	m.Store, err = s.count(ctx)
	m.Dead = m.Store.dead
	var missed []string
	if m.Ratio > drainedWithin {
		missed = append(missed, fmt.Sprintf("%.2f times the time without the kill", m.Ratio))
	}
	if n := m.Store.Failures + m.Store.Crashes + m.Dead; n > 0 {
		missed = append(missed, fmt.Sprintf("%d counted attempts and dead letters", n))
	}
	return m, missed, err
}

func (d *drain) round(ctx context.Context, s *setup) (r drainRound, err error) {
	whole, err := d.undisturbed(ctx, s)
	if err != nil {
		return r, fmt.Errorf("without a kill: %w", err)
	}
	if err := d.killed(ctx, s, &r); err != nil {
		return r, fmt.Errorf("with a kill: %w", err)
	}
	undisturbed := whole.Seconds() * float64(r.Left) / float64(d.messages)
	r.Undisturbed = seconds(time.Duration(undisturbed * float64(time.Second)))
	r.Ratio, r.Working = ratio(r.Drained, undisturbed), ratio(r.Drained-r.Reconnected, undisturbed)
	return r, nil
}

// begin fills the queue and starts a consumer.
func (d *drain) begin(ctx context.Context, s *setup) (*process, error) {
	out, err := s.producer(ctx)
	if err != nil {
		return nil, err
	}
	defer out.Close()
	if err := s.publish(ctx, out, slices.Repeat([]string{d.body}, d.messages)...); err != nil {
		return nil, err
	}
	spec := s.spec(d.concurrency)
	spec.Every = 10 * time.Millisecond
	return spawn(spec)
}

func (d *drain) all(l line) bool { return l.Tally.Distinct == d.messages }

// undisturbed returns the time from the first run of a handler until the last ack.
func (d *drain) undisturbed(ctx context.Context, s *setup) (time.Duration, error) {
	p, err := d.begin(ctx, s)
	if err != nil {
		return 0, err
	}
	defer p.end()
	first, err := p.until(ctx, time.Minute, "a run", func(l line) bool { return l.Tally.Began > 0 })
	if err != nil {
		return 0, err
	}
	last, err := p.until(ctx, 2*time.Minute, "the queue to drain", d.all)
	if err != nil {
		return 0, err
	}
	return last.At.Sub(first.At), p.stop()
}

func (d *drain) killed(ctx context.Context, s *setup, r *drainRound) error {
	p, err := d.begin(ctx, s)
	if err != nil {
		return err
	}
	defer p.end()
	if _, err := p.until(ctx, time.Minute, "some messages to be handled", func(l line) bool {
		return l.Tally.Distinct >= d.after
	}); err != nil {
		return err
	}
	if err := s.broker.Kill(ctx); err != nil {
		return err
	}
	dead := time.Now()
	before, err := p.at(ctx, dead.Add(settling/2)) // what ran then has ended
	if err != nil {
		return err
	}
	if err := s.broker.Start(ctx); err != nil {
		return err
	}
	answered := time.Now()
	again, err := p.until(ctx, time.Minute, "a run after the restart", func(l line) bool {
		return l.Tally.Began > before.Tally.Began
	})
	if err != nil {
		return err
	}
	last, err := p.until(ctx, 2*time.Minute, "the queue to drain", d.all)
	if err != nil {
		return err
	}
	r.Left, r.Away = d.messages-before.Tally.Distinct, seconds(answered.Sub(dead))
	r.Reconnected, r.Drained = seconds(again.At.Sub(answered)), seconds(last.At.Sub(answered))
	r.Again = last.Tally.Again - before.Tally.Again
	r.Repeated = last.Tally.Handled - last.Tally.Distinct
	return p.stop()
}
