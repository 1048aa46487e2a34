package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"reflect"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
)

// Counter takes the steps that count a message. *counter.Counter and *counter.Memory are Counters. Many goroutines may call
// its methods at the same time, and again with the same token after an error. A Counter that also has their NoteUndecodable
// gets reports of messages that cannot be decoded, for status and doctor. By one that also has their Control, operators pause a
// Consumer and skip messages.
type Counter interface {
	Start(ctx context.Context, a counter.Attempt, mode counter.Mode, limit int) (counter.Reply, error)
	Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error)
	Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error)
	End(ctx context.Context, a counter.Attempt, succeeded bool) error
}

// RetryMode says where a failed message waits for its next attempt.
type RetryMode int

const (
	// RetryRequeue holds the delivery for the backoff, then returns it to its original position in the queue. Any consumer may
	// take it. With a prefetch above one, up to twice that many other messages may overtake it.
	RetryRequeue RetryMode = iota + 1

	// RetryInPlace keeps the delivery unacked and calls the handler again in this process after the backoff. If the process
	// dies, the next receiver continues the count.
	RetryInPlace
)

// Isolation says how messages are treated that may have killed a process.
type Isolation int

const (
	// IsolationSuspects isolates a message after an attempt at it was found open, and counts a crash against it if the isolated
	// attempt is found open too. A message that kills every process is dead-lettered after MaxRetries+3 attempts, and its
	// crashes count against no other message. Isolated means that no other handler of this package runs in the process,
	// whatever its queue. A handler that waits for another one is stuck until its HandlerTimeout. While the store does not
	// answer for an isolated attempt, the process handles first deliveries only. While a handler that was abandoned at its
	// deadline still runs, crashes are not counted.
	IsolationSuspects Isolation = iota + 1

	// IsolationStrict isolates every message that has an id and asks the store before each attempt, so that a message
	// which kills its process is dead-lettered after MaxRetries+1 attempts. It costs two round trips for each
	// message, allows one handler at a time in the whole process, and holds every message while the store is out of
	// reach.
	IsolationStrict

	// IsolationOff does not count crashes: a message that kills its process comes back without end, unless the broker has a limit.
	IsolationOff
)

// The documented defaults.
const (
	DefaultMaxRetries      = 3
	DefaultHandlerTimeout  = 5 * time.Minute
	DefaultConsumerTimeout = 30 * time.Minute
	maxMaxRetries          = 1000
)

// A Settler counts and settles one delivery at a time, for programs with their own loop over the deliveries of a channel. Most
// programs want Consumer. The fields must not be changed after the first Handle. Many goroutines may call Handle.
type Settler struct {
	Queue   string  // that the deliveries come from; must not be empty
	VHost   string  // of the connection; if empty, "/"
	Counter Counter // must not be nil; its TTL at least the HandlerTimeout + 3/4 of the ConsumerTimeout + a minute

	// MaxRetries is the number of retries after the first failed attempt; if zero, 3; if negative, none; at most 1000. A message
	// gets MaxRetries+1 attempts. An operator may override it for a queue in the store.
	MaxRetries int

	// MaxAge dead-letters a message that fails later than MaxAge after its first failed attempt, by the store's clock and whatever its
	// count, with counter.CauseTooOld. A message does not become too old while it waits. An operator may override MaxAge for a queue,
	// and lift it for a message with a grant. If zero, there is no such limit. A negative one is refused.
	MaxAge time.Duration

	Retry     RetryMode // if zero, RetryRequeue
	Isolation Isolation // if zero, IsolationSuspects

	// Backoff returns how long a message waits after so many failed attempts (1 after the first); if nil, DefaultBackoff. The
	// wait continues if its holder dies. A negative one is none.
	Backoff func(failed int) time.Duration

	// HandlerTimeout is how long one attempt may take; if zero, 5 minutes; at most half the ConsumerTimeout. At the deadline the
	// handler's context is cancelled. If the handler then returns nil, the message is acked; an error is counted. A handler
	// that has not returned after 2 s is abandoned and counted as failed; it goes on beside other handlers. If negative, there is
	// no timeout: a handler that hangs is never counted, and an isolated one keeps all others in this process waiting.
	HandlerTimeout time.Duration

	// ConsumerTimeout is the broker's delivery acknowledgement timeout, which AMQP cannot report; if zero, 30 minutes,
	// RabbitMQ's default; a minute at least. No delivery is held for more than half of it: one that waits longer, for its
	// backoff, the store or a free handler, is requeued, or left with its session. If the store must first close its attempt and
	// does not answer, a quarter is added.
	ConsumerTimeout time.Duration

	// Key returns what identifies a message in the queue; if nil, its MessageId. Two messages with one id are counted as one. A
	// message without an id cannot be counted: it gets one attempt at most. A failure or a redelivery dead-letters it, even if no
	// handler has seen it because a stopping consumer had prefetched it. Its reason is logged, because no record keeps it.
	Key func(amqp.Delivery) string

	// Holder names this process to operators; if empty, the host's name and the process id.
	Holder string

	Observer Observer     // gets every outcome; if nil, none
	Tracer   Tracer       // follows every attempt; if nil, none, at no cost
	Logger   *slog.Logger // gets dead letters at WARN, retries at DEBUG, and trouble; if nil, nothing is logged

	later           *later     // if nil, no message is moved
	isolation       *isolation // if nil, ofProcess
	late            *late      // steps that the store did not take in time; if nil, ownerless
	route           *route     // that dead letters take; if nil, it is not checked
	deadLettersFrom time.Time  // dead letters are held until then
}

// ErrHeldTooLong is wrapped by Handle when the store was out of reach for half the ConsumerTimeout, so that neither an
// attempt nor a failure could be recorded. The delivery is left and nothing was counted: close its channel, which returns
// it to the queue.
var ErrHeldTooLong = errors.New("consumer: the store was out of reach for too long")

// ErrSettlement is wrapped when an ack or nack could not be sent: the channel is closed, and the delivery returns to the
// queue. What was counted stays counted, and is acted on when it comes back.
var ErrSettlement = errors.New("consumer: delivery not settled")

// Handle makes attempts at d with h, counts the failed ones, and settles d. Call it once for each delivery of a channel that
// consumes without auto-ack, while that channel is open, from as many goroutines as handlers may run at the same time.
//
// When ctx is done, h's context is cancelled, nothing is counted, and the outcome is OutcomeLeave. A delivery that is left comes
// back when its channel is closed, so close it.
//
// The error is nil unless d was left for another reason than ctx: a field that is refused, ErrHeldTooLong, or
// ErrSettlement.
func (s *Settler) Handle(ctx context.Context, d amqp.Delivery, h Handler) (Outcome, error) {
	set, err := s.prepared()
	if err != nil {
		return OutcomeLeave, err
	}
	if h == nil {
		return OutcomeLeave, errNoHandler
	}
	one := newSession(Consumer{Handler: h, Concurrency: 1, Prefetch: 1, AckEach: true}, set)
	defer one.prepare(ctx, ctx)()
	handled := one.take(ctx, d)
	one.tasks.Wait()
	return handled.outcome, handled.err
}

var errNoHandler = fmt.Errorf("consumer: %w", setting.New("Handler", nil, "a function that handles a message"))

// prepared returns a validated copy with every default in place.
func (s *Settler) prepared() (*Settler, error) {
	if err := s.validate(); err != nil {
		return nil, err
	}
	out := s.withDefaults()
	return &out, nil
}

func (s *Settler) validate() error {
	switch {
	case s.Queue == "":
		return fmt.Errorf("consumer: %w", setting.New("Queue", "", "the name of the queue to consume"))
	case isNil(s.Counter):
		return refused(s.Queue, "Counter", nil, "made by counter.Dial, counter.New or, in tests, counter.NewMemory")
	case s.MaxRetries > maxMaxRetries:
		return refused(s.Queue, "MaxRetries", s.MaxRetries, fmt.Sprintf("at most %d", maxMaxRetries))
	case s.MaxAge < 0:
		return refused(s.Queue, "MaxAge", s.MaxAge, "0s or more")
	case s.Retry < 0 || s.Retry > RetryInPlace:
		return refused(s.Queue, "Retry", s.Retry, "RetryRequeue or RetryInPlace")
	case s.Isolation < 0 || s.Isolation > IsolationOff:
		return refused(s.Queue, "Isolation", s.Isolation, "IsolationSuspects, IsolationStrict or IsolationOff")
	case s.ConsumerTimeout != 0 && s.ConsumerTimeout < time.Minute:
		return refused(s.Queue, "ConsumerTimeout", s.ConsumerTimeout, "that of the broker, 1m0s at least")
	}
	if err := s.checkTTL(); err != nil {
		return err
	}
	handler, held := cmp.Or(s.HandlerTimeout, DefaultHandlerTimeout), cmp.Or(s.ConsumerTimeout, DefaultConsumerTimeout)/2
	if handler > held {
		return refused(s.Queue, "HandlerTimeout", handler, fmt.Sprintf("at most %v, half the consumer timeout", held))
	}
	return nil
}

// recordKeeper is a Counter that knows how long it keeps a record after its last write.
type recordKeeper interface{ TTL() time.Duration }

// ttlMargin is for the steps themselves.
const ttlMargin = time.Minute

// checkTTL refuses a TTL that can pass between START and FAIL: a delivery is held until a quarter before the consumer
// timeout, and a handler may begin just before that. A handler without a bound runs until the broker takes its delivery.
func (s *Settler) checkTTL() error {
	keeper, ok := s.Counter.(recordKeeper)
	if !ok {
		return nil
	}
	delivery, handler := cmp.Or(s.ConsumerTimeout, DefaultConsumerTimeout), cmp.Or(s.HandlerTimeout, DefaultHandlerTimeout)
	if handler < 0 {
		handler = delivery
	}
	if least := handler + delivery/4*3 + ttlMargin; keeper.TTL() < least {
		return fmt.Errorf("consumer: queue %q: the TTL of Counter must be at least %v, the HandlerTimeout + 3/4 of the ConsumerTimeout + 1m, got %v: a record could expire while its message is handled or held; raise counter.Options.TTL", s.Queue, least, keeper.TTL())
	}
	return nil
}

func (s *Settler) withDefaults() Settler {
	out := *s
	if out.VHost == "" {
		out.VHost = "/"
	}
	if out.MaxRetries == 0 {
		out.MaxRetries = DefaultMaxRetries
	}
	out.MaxRetries = max(out.MaxRetries, 0)
	if out.Retry == 0 {
		out.Retry = RetryRequeue
	}
	if out.Isolation == 0 {
		out.Isolation = IsolationSuspects
	}
	if out.Backoff == nil {
		out.Backoff = DefaultBackoff
	}
	switch {
	case out.HandlerTimeout == 0:
		out.HandlerTimeout = DefaultHandlerTimeout
	case out.HandlerTimeout < 0:
		out.HandlerTimeout = math.MaxInt64
	}
	if out.ConsumerTimeout == 0 {
		out.ConsumerTimeout = DefaultConsumerTimeout
	}
	if out.Holder == "" {
		out.Holder = thisProcess
	}
	if out.isolation == nil {
		out.isolation = ofProcess
	}
	if out.late == nil {
		out.late = ownerless
	}
	if out.Logger == nil {
		out.Logger = slog.New(slog.DiscardHandler)
	}
	return out
}

// isNil also sees the nil *counter.Counter of a Dial whose error was passed over.
func isNil(c Counter) bool {
	v := reflect.ValueOf(c)
	return c == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

// limit is the number of failed attempts at which a message is dead-lettered.
func (s *Settler) limit() int { return s.MaxRetries + 1 }
