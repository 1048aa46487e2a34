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

// watchLines prints a look an interval until ctx is done. What is out of reach for a while is said on stderr.
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

// seen is what a look found.
type seen struct {
	status status.Status
	err    error
}

// watchScreen redraws a terminal until ctx is done or a key ends it. What is out of reach for a while is said below what was
// seen last.
func (a *app) watchScreen(ctx context.Context, l *collector, s status.Status, every time.Duration) (err error) {
	screen, err := term.OpenScreen(a.In, a.Out)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, screen.Close()) }()
	ctx, stop := context.WithCancel(ctx)
	looks, done := make(chan seen), make(chan struct{})
	go func() {
		defer close(done)
		l.again(ctx, every, looks)
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
		case next := <-looks:
			if next.err != nil {
				next.status = now.status
			}
			now = next
		}
	}
}

// resizePoll is how soon a change of the terminal's size is seen. (A signal tells of it at once, but not everywhere.)
const resizePoll = 200 * time.Millisecond

// again looks once an interval until ctx is done.
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
