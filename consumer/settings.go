package consumer

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math"
	"reflect"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/setting"
)

// Counter takes the steps that count a message, and keeps the state that operators and other consumers of the queue
// share. *counter.Counter and *counter.Memory are Counters, which describe the methods; embed one to change some of
// them. Many goroutines may call the methods at the same time, and again with the same token after an error.
type Counter interface {
	TTL() time.Duration
	Check(ctx context.Context) (warnings []string, err error)

	Start(ctx context.Context, a counter.Attempt, mode rules.Mode, limit int) (counter.Reply, error)
	Begun(ctx context.Context, a counter.Attempt) (counter.Reply, error)
	Fail(ctx context.Context, a counter.Attempt, f counter.Failure) (counter.Reply, error)
	End(ctx context.Context, a counter.Attempt, succeeded bool) error
	Moved(ctx context.Context, a counter.Attempt, copyNumber int64) error

	Control(ctx context.Context, vhost, queue string, r counter.Reader) (counter.Control, error)
	HoldQueue(ctx context.Context, h counter.Holding, n counter.Note) error
	AskBreaker(ctx context.Context, vhost, queue string, p rules.Progress) (counter.BreakerState, error)
	NoteUndecodable(ctx context.Context, vhost, queue, why string) error

	OwnLanes(ctx context.Context, vhost, queue, before, owner string) (now string, err error)
	StepLane(ctx context.Context, s rules.LaneStep) (rules.LaneReply, error)
	NextBlocked(ctx context.Context, vhost, queue string, after counter.BlockedPage) (counter.BlockedPage, error)
	BlockedLanes(ctx context.Context, vhost, queue string) (int, error)

	Deal(ctx context.Context, vhost, queue string, r rules.DealRead) (mine []int, err error)
}

// RetryMode says where a failed message waits for its next attempt.
type RetryMode int

const (
	// RetryRequeue holds the delivery for the backoff, then returns it to its original position in the queue. Any
	// consumer may take it. With a prefetch above one, up to twice that many other messages may overtake it.
	RetryRequeue RetryMode = iota + 1

	// RetryInPlace keeps the delivery unacked and calls the handler again in this process after the backoff. If the
	// process dies, the next receiver continues the count.
	RetryInPlace
)

// Isolation says how messages are treated that may have killed a process.
type Isolation int

const (
	// IsolationSuspects isolates a message after an attempt at it was found open. If the isolated attempt is found
	// open too, it counts a crash against the message. A message that kills every process is dead-lettered after
	// MaxRetries+3 attempts, and its crashes count against no other message. Isolated means that no other handler of
	// this package runs in the process, whatever its queue. A handler that waits for another one is stuck until its
	// HandlerTimeout. While the store does not answer for an isolated attempt, the process handles first deliveries
	// only. While a handler that was abandoned at its deadline still runs, crashes are not counted.
	IsolationSuspects Isolation = iota + 1

	// IsolationOff does not count crashes: a message that kills its process comes back without end, unless the broker
	// has a limit.
	IsolationOff
)

// The documented defaults.
const (
	DefaultMaxRetries      = 3
	DefaultHandlerTimeout  = 5 * time.Minute
	DefaultConsumerTimeout = 30 * time.Minute
	maxMaxRetries          = counter.MaxOverride
	maxConsumerTimeout     = 100 * 365 * 24 * time.Hour // so that no sum with it overflows
)

// ErrWaitedTooLong is wrapped by Handle, and ends a session, when the store was out of reach for half the
// ConsumerTimeout. Nothing was counted, and the delivery is not settled: close its channel, which returns it to the
// queue.
var ErrWaitedTooLong = errors.New("consumer: the store was out of reach for too long")

// ErrSettlement is wrapped when an ack or nack could not be sent: the channel is closed, and the delivery returns to
// the queue. A counted attempt stays counted, and decides the next step when the delivery comes back.
var ErrSettlement = errors.New("consumer: delivery not settled")

// refusal is an error that another session would meet as well.
type refusal struct{ error }

func (r refusal) Unwrap() error { return r.error }

func (c *Consumer) validate(conn *amqp.Connection) error {
	switch {
	case conn == nil:
		return fmt.Errorf("consumer: queue %q: the connection is nil", c.Queue)
	case conn.Config.Recovery != nil:
		return fmt.Errorf("consumer: queue %q: the connection recovers by itself (amqp.Config.Recovery), so that a late ack "+
			"would settle another message: leave Recovery nil, Run redials", c.Queue)
	}
	if err := c.complete(); err != nil {
		return err
	}
	return c.Validate()
}

// complete refuses a consumer without a Queue, a Handler or a Counter, and a store that forgets too soon.
func (c *Consumer) complete() error {
	switch {
	case c.Queue == "":
		return fmt.Errorf("consumer: %w", setting.New("Queue", "", "the name of the queue to consume"))
	case c.Handler == nil:
		return fmt.Errorf("consumer: %w", setting.New("Handler", nil, "a function that handles a message"))
	case isNil(c.Counter):
		return refused(c.Queue, "Counter", nil, "made by counter.Dial, counter.New or, in tests, counter.NewMemory")
	}
	return c.checkTTL()
}

// Validate returns a *FieldError for a setting that every session would refuse. It asks neither broker nor store, and
// accepts a missing Queue, Handler or Counter. So a program can refuse its own settings before it connects.
func (c *Consumer) Validate() error {
	set, err := c.withFeatures()
	if err != nil {
		return err
	}
	c = &set
	requeue := c.Ordered && c.Retry == RetryRequeue
	handler, held := cmp.Or(c.HandlerTimeout, DefaultHandlerTimeout), cmp.Or(c.ConsumerTimeout, DefaultConsumerTimeout)/2
	switch {
	case c.MaxRetries > maxMaxRetries:
		return refused(c.Queue, "MaxRetries", c.MaxRetries, fmt.Sprintf("at most %d", maxMaxRetries))
	case c.MaxAge < 0:
		return refused(c.Queue, "MaxAge", c.MaxAge, "0s or more")
	case c.Retry < 0 || c.Retry > RetryInPlace:
		return refused(c.Queue, "Retry", c.Retry, "RetryRequeue or RetryInPlace")
	case c.Isolation < 0 || c.Isolation > IsolationOff:
		return refused(c.Queue, "Isolation", c.Isolation, "IsolationSuspects or IsolationOff")
	case c.ConsumerTimeout != 0 && (c.ConsumerTimeout < time.Minute || c.ConsumerTimeout > maxConsumerTimeout):
		return refused(c.Queue, "ConsumerTimeout", c.ConsumerTimeout, "that of the broker, 1m0s at least and 100 "+
			"years at most")
	case c.Concurrency < 0 || c.Concurrency > 65535:
		return refused(c.Queue, "Concurrency", c.Concurrency, "1 to 65535, or 0 for one")
	case c.Prefetch < 0 || c.Prefetch > 65535:
		return refused(c.Queue, "Prefetch", c.Prefetch, "1 to 65535, or 0 for the default")
	case handler > held:
		return refused(c.Queue, "HandlerTimeout", handler, fmt.Sprintf("at most %v, half the consumer timeout", held))
	case c.Lane != nil && !c.Ordered:
		return refused(c.Queue, "Ordered", false, "true with a Lane")
	case c.HoldLanes && !c.Ordered:
		return refused(c.Queue, "HoldLanes", true, "false unless Ordered")
	case c.Lane != nil && requeue:
		return refused(c.Queue, "Retry", "RetryRequeue",
			"RetryInPlace with a Lane, because a requeued message would stop all lanes")
	case c.Ordered && c.Lane == nil && c.Concurrency > 1:
		return refused(c.Queue, "Concurrency", c.Concurrency, "1 when Ordered without a Lane")
	case requeue && c.Prefetch > 1:
		return refused(c.Queue, "Prefetch", c.Prefetch,
			"1 when Ordered with RetryRequeue, because prefetched messages would overtake a requeued one")
	}
	return nil
}

// ttlMargin is for the steps themselves.
const ttlMargin = time.Minute

// checkTTL refuses a TTL that can pass between START and FAIL: a delivery is held until a quarter before the consumer
// timeout, and a handler may begin just before that. A handler without a bound runs until the broker takes its
// delivery.
func (c *Consumer) checkTTL() error {
	delivery, handler := cmp.Or(c.ConsumerTimeout, DefaultConsumerTimeout), cmp.Or(c.HandlerTimeout, DefaultHandlerTimeout)
	if handler < 0 {
		handler = delivery
	}
	if least := handler + delivery/4*3 + ttlMargin; c.Counter.TTL() < least {
		return refused(c.Queue, "ConsumerTimeout", delivery, fmt.Sprintf("shorter: it needs a counter.Options.TTL "+
			"of %v (the HandlerTimeout + 3/4 of the ConsumerTimeout + 1m), which is %v, or a record expires while its "+
			"message waits", least, c.Counter.TTL()))
	}
	return nil
}

// isNil also sees the nil *counter.Counter of a Dial whose error was passed over.
func isNil(c Counter) bool {
	v := reflect.ValueOf(c)
	return c == nil || v.Kind() == reflect.Pointer && v.IsNil()
}

func (c *Consumer) withDefaults() Consumer {
	out, _ := c.withFeatures() // Validate returns the error
	out.MaxRetries = max(cmp.Or(out.MaxRetries, DefaultMaxRetries), -1)
	out.Concurrency = cmp.Or(out.Concurrency, 1)
	if out.Retry == 0 && out.Ordered {
		out.Retry = RetryInPlace
	}
	out.Retry = cmp.Or(out.Retry, RetryRequeue)
	out.Isolation = cmp.Or(out.Isolation, IsolationSuspects)
	out.Prefetch = cmp.Or(out.Prefetch, out.defaultPrefetch())
	if out.HandlerTimeout = cmp.Or(out.HandlerTimeout, DefaultHandlerTimeout); out.HandlerTimeout < 0 {
		out.HandlerTimeout = math.MaxInt64
	}
	out.ConsumerTimeout = cmp.Or(out.ConsumerTimeout, DefaultConsumerTimeout)
	out.DrainTimeout = cmp.Or(out.DrainTimeout, DefaultDrainTimeout)
	out.Name = cmp.Or(out.Name, thisProcess)
	out.Logger = out.logger()
	return out
}

func (c *Consumer) defaultPrefetch() int {
	switch {
	case c.Ordered && c.Retry == RetryRequeue:
		return 1
	case c.Ordered:
		return min(max(2*c.Concurrency, 30), 65535)
	}
	return min(max(2*c.Concurrency, 10), 65535)
}

// limit is the number of failed attempts at which a message is dead-lettered.
func (s *settings) limit() int { return max(s.MaxRetries, 0) + 1 }
