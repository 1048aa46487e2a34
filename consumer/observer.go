package consumer

import (
	"context"
	"log/slog"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// An Observer is told of every decision after it was acted on. It must return soon: of settlements it is told by the one
// goroutine of the session that sends them. It may be called from many at once, and changes nothing by what it does. Metrics
// and traces are built on it: examples/service has one for Prometheus, ExampleObserver_slog one for slog.
type Observer interface {
	Observe(ctx context.Context, e Event)
}

// Decision is what was done with a delivery.
type Decision string

// What was done.
const (
	Ack        Decision = "ack"
	Retry      Decision = "retry"       // a failure was charged; the next attempt may begin after Event.Wait
	Return     Decision = "requeue"     // the delivery was returned to its place in the queue, after the wait
	DeadLetter Decision = "dead-letter" // nacked without requeue
	Isolate    Decision = "isolate"     // the message may have killed a process: it will run alone
	Hold       Decision = "hold"        // the store did not answer, or the dead-letter route is broken: the delivery is held, or given up if it was held too long
	Leave      Decision = "leave"       // not settled: it returns to the queue with its session

	// Undecodable is about no delivery: a message that the client cannot decode ended the session. Err says where it is.
	Undecodable Decision = "undecodable"
)

// Event is one decision. ID and Err come from messages and handlers: they may hold control characters.
type Event struct {
	Decision    Decision
	VHost       string
	Queue       string
	ID          string // empty if the message has none
	Token       string // of the attempt
	Redelivered bool

	Attempt  int           // number of the attempt
	Limit    int           // charges at which the message is dead-lettered
	Failures int           // charged so far in this life, as far as known
	Crashes  int           // charged so far in this life, as far as known
	Held     time.Duration // since this process received the delivery
	Ran      time.Duration // how long the handler ran; zero if it did not
	Wait     time.Duration // Retry: until the next attempt
	Cause    counter.Cause // of a Retry; of a DeadLetter, that of the last counted attempt
	Err      error         // the handler's; of a Hold the store's or the route's; or why the delivery could not be settled
}

// LogValue keeps a log line to what matters.
func (e Event) LogValue() slog.Value {
	attrs := []slog.Attr{
		slog.String("decision", string(e.Decision)), slog.String("queue", e.Queue), slog.String("id", e.ID),
		slog.Int("attempt", e.Attempt), slog.Int("limit", e.Limit),
	}
	if e.Cause != "" {
		attrs = append(attrs, slog.String("cause", string(e.Cause)))
	}
	if e.Wait > 0 {
		attrs = append(attrs, slog.Duration("wait", e.Wait))
	}
	if e.Err != nil {
		attrs = append(attrs, slog.String("error", e.Err.Error()))
	}
	return slog.GroupValue(attrs...)
}

// tell completes an event with what is known of the attempt.
func (s *Settler) tell(ctx context.Context, a *attempt, e Event) {
	if s.Observer == nil {
		return
	}
	e.VHost, e.Queue, e.ID, e.Token = s.VHost, s.Queue, a.message.ID, a.token.String()
	e.Redelivered, e.Held, e.Ran = a.delivery.Redelivered, time.Since(a.received(s)), a.ran
	e.Failures, e.Crashes, e.Limit = a.answer.Failures, a.answer.Crashes, a.answer.Limit
	e.Attempt = a.number
	if e.Decision == Retry || e.Decision == DeadLetter {
		e.Cause = a.cause
		if e.Err == nil {
			e.Err = a.failure
		}
	}
	s.guard("Observer", func() { s.Observer.Observe(context.WithoutCancel(ctx), e) })
}
