package consumer

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
)

// A Handler handles one message. Nil means done: the message is acked. An error is counted as a failed attempt, and the
// message is retried or dead-lettered; Reject, RetryAfter, RetryAtMost, NotCounted and Crashed steer that. A panic is
// counted like an error, with its stack.
//
// The context is cancelled at the HandlerTimeout, when the delivery's session is lost (the message will be delivered
// again, to any consumer), and when the time to drain is over. An error is counted only in the first case. AttemptFrom
// returns the number of the attempt. The delivery's Ack, Nack and Reject return ErrSettled. Its Headers are a copy, and
// may be changed. Tables inside them, and its Body, are shared with the next attempt, and must not be. Several
// goroutines may call a Handler at the same time.
type Handler func(ctx context.Context, d amqp.Delivery) error

// Reject wraps err so that the message is dead-lettered now, whatever its count. Reject(nil) is nil.
func Reject(err error) error { return steer(err, steering{rejected: true}) }

// RetryAfter wraps err so that the next attempt waits for d instead of the Backoff. It changes nothing else. The wait
// of a counted attempt outlives its consumer. The delivery is held unacked meanwhile, and a wait beyond half the
// ConsumerTimeout passes from one consumer to the next. If d is longer than Consumer.DelayAbove, the message waits in
// the delay queues instead. RetryAfter(nil, d) is nil.
func RetryAfter(err error, d time.Duration) error { return steer(err, steering{waits: true, wait: d}) }

// RetryAtMost wraps err so that the message is retried n times at most after a failure of this kind. The message is
// dead-lettered if it has more than n failed attempts of any kind, this one included. RetryAtMost lowers the limit in
// force for this failure alone, and never raises it. A limit that an operator gave the message replaces it. A negative
// n is treated as 0, which allows no retry. If several are wrapped in each other or joined, the smallest n is used.
// RetryAtMost may be combined with RetryAfter. It has no effect on an attempt that is not counted. Unlike Reject it
// waits for the store. RetryAtMost(nil, n) is nil.
func RetryAtMost(err error, n int) error {
	return steer(err, steering{limited: true, retries: min(max(n, 0), maxMaxRetries)})
}

// NotCounted wraps err so that the attempt is not counted: the handler could not work, for a reason other than the
// message. The delivery is held unacked, for the Backoff or the delay of RetryAfter. Then the handler is called again
// in this process, whatever the RetryMode. The Backoff grows with the attempts in a row that were not counted; the
// wait is 100 ms at least. It ends with its consumer. A delivery that was held for half the ConsumerTimeout returns to
// the queue. A message without an id gets another attempt too. NotCounted(nil) is nil.
func NotCounted(err error) error { return steer(err, steering{uncounted: true}) }

// Crashed wraps err so that the attempt ends as if this process had died in it. It is for a handler that has its work
// done by another process, which died meanwhile. If the attempt was isolated, it is counted as a failure with the cause
// CauseCrashed. Isolated means that no other handler of this process ran; the other process may have had more callers.
// Any other attempt is not counted, and the delivery is held like that of NotCounted. The message becomes a suspect:
// its next attempt is isolated. With IsolationOff such a message comes back without end. A message without an id is
// dead-lettered. Crashed(nil) is nil.
func Crashed(err error) error { return steer(err, steering{crashed: true}) }

// steering is how the error of a handler steers the retry.
type steering struct {
	rejected  bool          // by Reject
	uncounted bool          // by NotCounted
	crashed   bool          // by Crashed
	waits     bool          // by RetryAfter
	wait      time.Duration // if it waits
	limited   bool          // by RetryAtMost
	retries   int           // if it is limited
}

// steered is the error of a handler with one kind of steering.
type steered struct {
	error
	steering
}

func (s *steered) Unwrap() error { return s.error }

// As adds the steering to that of a target that sums it up.
func (s *steered) As(target any) bool {
	if sum, is := target.(**steeringSum); is {
		(*sum).add(s.steering)
	}
	return false
}

func steer(err error, how steering) error {
	if err == nil {
		return nil
	}
	return &steered{err, how}
}

// steeringSum is a target of errors.As that no error is. So errors.As visits all errors that it can reach: also those
// that a type shows by its method As alone, as hashicorp/go-multierror does.
type steeringSum struct{ steering } //nolint:errname // only a target

func (*steeringSum) Error() string { return "" }

// add adds the steering of an error. Of several waits the first counts, of several limits the lowest.
func (sum *steeringSum) add(s steering) {
	sum.rejected = sum.rejected || s.rejected
	sum.uncounted = sum.uncounted || s.uncounted
	sum.crashed = sum.crashed || s.crashed
	if s.waits && !sum.waits {
		sum.waits, sum.wait = true, s.wait
	}
	if s.limited && (!sum.limited || s.retries < sum.retries) {
		sum.limited, sum.retries = true, s.retries
	}
}

// steeringOf sums up all steering in err's tree.
func steeringOf(err error) steering {
	sum := new(steeringSum)
	_ = errors.As(err, &sum)
	return sum.steering
}

// PanicError is the error of an attempt whose Handler panicked. It does not unwrap to Value. So a panic with an error
// of Reject or RetryAfter counts as any other panic.
type PanicError struct {
	Value any    // the argument of panic
	Stack []byte // of the handler's goroutine

	text string // read once, because a method of the Value may panic; empty if the program made the error
}

func (e *PanicError) Error() string {
	if e.text == "" {
		return fmt.Sprintf("panic: %v", e.Value)
	}
	return e.text
}

// origin removes the frames between the goroutine's head and the frame that panicked from a stack.
func origin(stack string) string {
	if _, frames, ok := strings.Cut(stack, "\npanic("); ok {
		if lines := strings.SplitN(frames, "\n", 3); len(lines) == 3 {
			return lines[2]
		}
	}
	return stack
}

func errExhausted(r counter.Reply) error {
	counted := printable.Plural(r.Failures, "failure") + " and " + printable.Plural(r.Crashes, "crash")
	limit := "the limit of " + printable.Plural(r.Limit, "attempt")
	switch {
	case r.Cause == counter.CauseSkipped:
		return fmt.Errorf("an operator skipped it after %s: %s", counted, r.Reason)
	case r.Counted() < r.Limit:
		return fmt.Errorf("dead-lettered after %s, before %s (%s); the last: %s", counted, limit, r.Cause, r.Reason)
	}
	return fmt.Errorf("%s reached %s; the last: %s", counted, limit, r.Reason)
}
