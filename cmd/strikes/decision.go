package main

import (
	"context"
	"fmt"
	"io"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
)

// decision is an event of the consumer as --json prints it.
type decision struct {
	Time        time.Time `json:"time"`
	Decision    string    `json:"decision"`
	Queue       string    `json:"queue"`
	Partition   string    `json:"partition,omitempty"`
	ID          string    `json:"id"`
	Attempt     int       `json:"attempt,omitempty"`
	Of          int       `json:"of,omitempty"` // attempts that there are
	Failures    int       `json:"failures,omitempty"`
	Crashes     int       `json:"crashes,omitempty"`
	Redelivered bool      `json:"redelivered,omitempty"`
	Token       string    `json:"token,omitempty"`      // of the attempt
	ElapsedMS   int64     `json:"elapsed_ms,omitempty"` // since this process received the message
	RanMS       int64     `json:"ran_ms,omitempty"`
	WaitMS      int64     `json:"wait_ms,omitempty"` // until the next attempt
	Cause       string    `json:"cause,omitempty"`
	Error       string    `json:"error,omitempty"`
}

func decisionOf(e consumer.Event, at time.Time) decision {
	d := decision{
		Time: at.UTC(), Decision: string(e.Outcome), Queue: e.Queue, Partition: e.Partition, ID: e.ID, Attempt: e.Attempt,
		Of:       e.Limit,
		Failures: e.Failures, Crashes: e.Crashes, Redelivered: e.Redelivered, Token: e.Token,
		ElapsedMS: e.Elapsed.Milliseconds(),
		RanMS:     e.Ran.Milliseconds(),
		WaitMS:    e.Wait.Milliseconds(), Cause: string(e.Cause),
	}
	if e.Err != nil {
		d.Error = cli.InFlags(e.Err.Error())
	}
	return d
}

// String is the decision on one line, fit for a terminal.
func (d decision) String() string {
	var b strings.Builder
	b.WriteString(d.Decision)
	if d.Decision != string(consumer.OutcomeUndecodable) { // which has no id
		b.WriteString(" " + printable.Name(d.ID))
	}
	if d.Attempt > 0 && d.Of > 0 && d.Cause != string(counter.CauseNoID) { // which gets one attempt
		fmt.Fprintf(&b, ", attempt %d of %d", d.Attempt, d.Of)
	}
	if d.Cause != "" {
		fmt.Fprintf(&b, " %s", d.Cause)
	}
	if d.Decision == string(consumer.OutcomeCrash) {
		b.WriteString(", not counted")
	}
	if d.WaitMS > 0 || d.Decision == string(consumer.OutcomeRetry) {
		fmt.Fprintf(&b, ", the next in %v", time.Duration(d.WaitMS)*time.Millisecond)
	}
	most := 200
	if d.Decision == string(consumer.OutcomeUndecodable) { // its text ends with the remedy
		most = 800
	}
	if d.Error != "" {
		fmt.Fprintf(&b, ": %s", printable.Line(d.Error, most))
	}
	if d.Decision == string(consumer.OutcomeHold) && !strings.HasSuffix(d.Error, "; see strikes status") {
		fmt.Fprintf(&b, "; strikes doctor %s says what to do", shell.Operands(d.Queue))
	}
	return b.String()
}

// troublesome are the outcomes that are shown to those who asked for nothing.
var troublesome = []consumer.Outcome{consumer.OutcomeRetry, consumer.OutcomeDeadLetter, consumer.OutcomeIsolate,
	consumer.OutcomeHold, consumer.OutcomeNotCounted, consumer.OutcomeCrash}

// lines writes decisions, a line each, in one write each.
type lines struct {
	to   io.Writer
	all  bool // not only the troublesome ones
	json bool

	mu sync.Mutex
}

// Observe is called by many goroutines.
func (l *lines) Observe(_ context.Context, e consumer.Event) {
	d := decisionOf(e, time.Now())
	if !l.all && d.Error == "" && !slices.Contains(troublesome, e.Outcome) {
		return
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.json {
		_ = jsonl.NewEncoder(l.to).Encode(d)
		return
	}
	_, _ = fmt.Fprintln(l.to, d) // nothing can be done if the terminal or pipe is gone
}

// observers are called one after the other.
type observers []consumer.Observer

func (o observers) Observe(ctx context.Context, e consumer.Event) {
	for _, each := range o {
		each.Observe(ctx, e)
	}
}
