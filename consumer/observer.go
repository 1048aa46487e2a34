package consumer

import (
	"cmp"
	"context"
	"log/slog"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
)

// An Observer gets an event for every outcome, after it was acted on. It must return soon: one goroutine sends the
// settlements of a session and reports them. Many goroutines may call it at the same time. It changes nothing.
// Metrics are built on it, such as those of plugin/promstrikes. Its ctx is that of the last attempt, as a Tracer
// returned it, if there was one. Dead letters and retries need no Observer to be logged: a Logger does that, once,
// with an Observer or without.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// Outcome is the end of a delivery, or of an attempt at it, such as ack or retry.
type Outcome string

// The outcomes. Handle returns OutcomeAck, OutcomeRequeue, OutcomeDeadLetter, OutcomeSuperseded or OutcomeLeave.
const (
	OutcomeAck        Outcome = "ack"         // handled
	OutcomeRetry      Outcome = "retry"       // a failed attempt was counted; the next one may begin after Event.Wait
	OutcomeRequeue    Outcome = "requeue"     // returned to its original position in the queue, after the wait
	OutcomeDeadLetter Outcome = "dead-letter" // nacked without requeue
	OutcomeIsolate    Outcome = "isolate"     // the message may have killed a process: its attempt is isolated
	// the store did not answer, the dead-letter route is broken, or no message succeeds (Breaker): the delivery waits, or
	// is left if it has waited too long
	OutcomeHold Outcome = "hold"
	// the handler said so (NotCounted), or no message succeeds (Breaker); the next attempt begins here after Event.Wait
	OutcomeNotCounted Outcome = "not-counted"
	// the handler's other process died (Crashed), which is not counted: the message is a suspect; the next attempt begins
	// here after Event.Wait, and is isolated
	OutcomeCrash      Outcome = "crash"
	OutcomeMove       Outcome = "move"       // acked: a confirmed copy waits in a delay queue
	OutcomeSuperseded Outcome = "superseded" // acked: a copy that waited in a delay queue takes its place
	OutcomeLeave      Outcome = "leave"      // not settled: it returns to the queue when its channel closes

	// OutcomeUndecodable is of no delivery: a message that the client cannot decode ended the session. Err says where it
	// is.
	OutcomeUndecodable Outcome = "undecodable"
)

// Event is one outcome. ID and Err come from messages and handlers: they may hold control characters.
type Event struct {
	Outcome     Outcome
	VHost       string
	Queue       string
	Partition   string // the queue that it came from, a partition of Queue; empty: Queue has none
	ID          string // empty if the message has none
	Token       string // of the attempt
	Redelivered bool

	Attempt  int           // number of the attempt
	Limit    int           // failed attempts at which the message is dead-lettered
	Failures int           // counted so far in this generation, as far as known
	Crashes  int           // counted so far in this generation, as far as known
	Elapsed  time.Duration // since this process received the delivery
	Ran      time.Duration // how long the handler ran; zero if it did not
	Wait     time.Duration // Retry, NotCounted, Crash: until the next attempt
	Cause    counter.Cause // of a Retry; of a DeadLetter, that of the last counted attempt
	// the handler's; of a Hold the store's or the route's; of an Isolate, why; or why the delivery could not be settled
	Err error
}

// observe fills in the attempt of an event, logs the event, and gives it to the Observer.
func (s *settings) observe(ctx context.Context, d *delivery, e Event) {
	level, logs := levels[e.Outcome]
	logs = logs && s.Logger.Enabled(ctx, level)
	if s.Observer == nil && !logs {
		return
	}
	if d.trace != nil {
		ctx = d.trace
	}
	e = s.completed(d, e)
	if e.Outcome == OutcomeRetry || e.Outcome == OutcomeDeadLetter {
		e.Cause = d.outcome.cause
		if e.Err == nil {
			e.Err = d.outcome.err
		}
	}
	if logs {
		s.log(context.WithoutCancel(ctx), level, d, e)
	}
	if s.Observer != nil {
		s.guard("Observer", func() { s.Observer.Observe(context.WithoutCancel(ctx), e) })
	}
}

// logger returns the Logger, or a silent one if it is nil.
func (c *Consumer) logger() *slog.Logger { return cmp.Or(c.Logger, slog.New(slog.DiscardHandler)) }

// levels are those of the outcomes that the Logger gets.
var levels = map[Outcome]slog.Level{OutcomeDeadLetter: slog.LevelWarn, OutcomeRetry: slog.LevelDebug}

// log logs a dead letter or a retry. A message without an id has no record, so its line shows the fingerprint by
// which strikes dead list --read names it. The error of a handler was read when the handler ended, and is not asked
// again: it may panic the second time.
func (s *settings) log(ctx context.Context, level slog.Level, d *delivery, e Event) {
	text, id := "dead-lettered a message", slog.String("id", e.ID)
	switch {
	case e.Outcome == OutcomeRetry:
		text = "an attempt failed; the message is retried"
	case e.ID == "":
		text += " without an id: the store has no record of it"
		id = slog.String("fingerprint", broker.Fingerprint(d.MessageId, d.CorrelationId, d.Type, d.Body))
		e.Limit = 1 // it gets one attempt
	}
	attrs := []slog.Attr{slog.String("outcome", string(e.Outcome)), slog.String("queue", e.Queue), id}
	add := func(known bool, a slog.Attr) {
		if known {
			attrs = append(attrs, a)
		}
	}
	add(e.Partition != "", slog.String("partition", e.Partition))
	add(e.Attempt > 0, slog.Int("attempt", e.Attempt))
	add(e.Limit > 0, slog.Int("limit", e.Limit))
	add(e.Cause != "", slog.String("cause", string(e.Cause)))
	add(e.Wait > 0, slog.Duration("wait", e.Wait))
	switch {
	case d.outcome.failed != nil:
		attrs = append(attrs, slog.String("error", d.outcome.failed.message))
	case e.Err != nil:
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	s.Logger.LogAttrs(ctx, level, text, attrs...)
}

func (s *settings) completed(d *delivery, e Event) Event {
	e.VHost, e.Queue, e.ID, e.Token = s.vhost, s.Queue, d.message.ID, d.token.String()
	e.Redelivered, e.Elapsed, e.Ran = d.Redelivered, time.Since(d.received), d.outcome.ran
	e.Failures, e.Crashes, e.Limit = d.reply.Failures, d.reply.Crashes, d.reply.Limit
	e.Attempt = d.number
	if s.source != s.Queue {
		e.Partition = s.source
	}
	return e
}
