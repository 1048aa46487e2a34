package main

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/status"
)

// watchLines prints the status once an interval until ctx is done. It reports on stderr what is out of reach.
func (a *app) watchLines(ctx context.Context, l *collector, out *statusPrinter, s status.Status, every time.Duration) error {
	tick := time.NewTicker(every)
	defer tick.Stop()
	if err := out.print(s); err != nil {
		return err
	}
	for {
		select {
		case <-ctx.Done():
			return nil
		case <-tick.C:
		}
		s, err := l.Collect(ctx)
		switch {
		case ctx.Err() != nil:
			return nil
		case err != nil:
			fmt.Fprintf(a.Err, "strikes: %s\n", term.Printable(err.Error(), ""))
		default:
			if err := out.print(s); err != nil {
				return err
			}
		}
	}
}

// seen is the result of one Collect.
type seen struct {
	status status.Status
	err    error
}

// watchScreen redraws a terminal until ctx is done or a key ends it. If something is out of reach, it says so above the
// last status.
func (a *app) watchScreen(ctx context.Context, l *collector, s status.Status, every time.Duration) (err error) {
	screen, err := term.OpenScreen(a.In, a.Out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, screen.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	collected, done := make(chan seen), make(chan struct{})
	go func() {
		defer close(done)
		l.again(ctx, every, collected)
	}()
	defer func() { <-done }()
	defer stop()

	resized := time.NewTicker(resizePoll)
	defer resized.Stop()
	now := seen{status: s}
	for {
		if err := screen.Draw(now.rows()); err != nil {
			return err
		}
		select {
		case <-ctx.Done():
			return nil
		case <-screen.Ended:
			return nil
		case <-resized.C: // drawn anew only if the size changed
		case next := <-collected:
			if next.err != nil {
				next.status = now.status
			}
			now = next
		}
	}
}

// resizePoll is how soon a change of the terminal's size is noticed. Not every system sends a signal for it.
const resizePoll = 200 * time.Millisecond

// again collects once an interval until ctx is done.
func (l *collector) again(ctx context.Context, every time.Duration, to chan<- seen) {
	tick := time.NewTicker(every)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		s, err := l.Collect(ctx)
		select {
		case <-ctx.Done():
			return
		case to <- seen{s, err}:
		}
	}
}

func (s seen) rows() []term.Row {
	rows := render.Status(s.status)
	if s.err != nil {
		rows = append([]term.Row{{Text: "not up to date: " + term.Printable(s.err.Error(), ""), Kind: term.Alarm}}, rows...)
	}
	return rows
}
