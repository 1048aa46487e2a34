package topology

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/shell"
)

// ErrQueueNotFound is returned by [Check] and [CheckRoute] for a queue that does not exist. Declare it, or check the
// virtual host of the connection.
var ErrQueueNotFound = broker.ErrNotFound

// ErrRefused is wrapped by [Declare] and [Repartition] if the queue has another number of partitions or none, or is in
// use, and by [Declare] and [Check] if the queue is one partition of another. The error says what to do.
var ErrRefused = errors.New("refused")

// Need lists the requirements of consumers on the queue they retry from.
type Need struct {
	Queue string // must not be empty

	// MaxRetries is how often a message is retried after its first failed attempt; if zero, 3; if negative, never. The
	// queue's delivery limit must allow them.
	MaxRetries int

	// Ordered asks for strict order: a single active consumer, and no setting of the broker that reorders.
	Ordered bool

	// HoldQueue says that an exhausted message pauses Queue, as consumer.Consumer.HoldLanes without a Lane does. A queue
	// that the broker deletes when its consumers stop, auto-delete or by x-expires, is refused.
	HoldQueue bool

	// Partitions is the number of partitions of Queue, see Spec.Partitions: 2 to 256; if zero, it is one queue. Check
	// checks each partition, and the exchanges that lead to them.
	Partitions int

	// AllowDrop accepts that rejected messages are lost: a queue without a dead-letter exchange passes, and a broken
	// dead-letter route is a warning. It does not accept a dead-letter route that leads back to the queue.
	AllowDrop bool

	// Management is the URL of the broker's HTTP API, such as http://user:password@host:15672; without a user, guest and
	// its usual password are sent. The user needs the tag management. Only the API reports policies and the bindings of
	// the dead-letter exchange. If empty, AMQP alone is asked, with the configure permission on the queue: it cannot see a
	// dead-letter exchange set by policy, so the queue is refused.
	Management string

	// HTTPClient is for Management; if nil, one that keeps no connections. A request takes 5 s at most.
	HTTPClient *http.Client

	// Logger gets the warnings; if nil, they are not logged.
	Logger *slog.Logger
}

func (n Need) inspect() inspect.Need {
	return inspect.Need{
		Queue: n.Queue, MaxRetries: cmp.Or(n.MaxRetries, inspect.UsualRetries), Ordered: n.Ordered, AllowDrop: n.AllowDrop,
		HoldQueue: n.HoldQueue, Management: n.Management, HTTPClient: n.HTTPClient,
	}
}

// Check returns nil if consumers may start on the queue, a [*RefusedError] which says what to change if they must not,
// [ErrQueueNotFound], or an error of the connection or of a queue whose node is down, after which nothing is known.
// Warnings go to need.Logger.
//
// Check refuses a queue if its messages would be lost or reordered, and also if it cannot see whether they would: lost
// dead letters are silent, a refusal is not. AMQP cannot see the bindings of the dead-letter exchange; without
// Management that is a warning.
//
// Check refuses a dead-letter route that leads back to the queue. It follows exchanges, their alternate exchanges, and
// queues that dead-letter on, as far as the routing keys in effect allow. If one of those queues has a TTL, that is a
// warning. AMQP alone can follow a route over the default exchange only.
//
// Check changes nothing on the broker. It uses channels of its own, one for each argument the queue has, and closes
// them. With Management it may wait 15 s for the policy of a queue that was just declared.
func Check(ctx context.Context, conn *amqp.Connection, need Need) error {
	findings, err := need.findings(ctx, conn)
	if errors.Is(err, ErrQueueNotFound) {
		err = fmt.Errorf("%w; strikes declare or topology.Declare makes it", err)
	}
	if err != nil {
		return fmt.Errorf("topology: %w", err)
	}
	for _, f := range findings {
		if f.Code == inspect.CodeNodeDown {
			return fmt.Errorf("topology: queue %q: %w", need.Queue, broker.ErrAway)
		}
	}
	return need.judge(ctx, findings)
}

func (n Need) findings(ctx context.Context, conn *amqp.Connection) ([]inspect.Finding, error) {
	if err := checkPartitions(n.Partitions); err != nil {
		return nil, err
	}
	if err := refusePartition(ctx, conn, n.Queue); err != nil {
		return nil, err
	}
	if n.Partitions > 0 {
		return inspect.InspectPartitions(ctx, conn, n.inspect(), n.Partitions, inspect.Inspect)
	}
	return inspect.Inspect(ctx, conn, n.inspect())
}

// refusePartition refuses one partition of a queue: its counts, limits and pauses would not be those of the queue.
func refusePartition(ctx context.Context, conn *amqp.Connection, name string) error {
	queue, n, err := broker.PartitionedBy(ctx, conn, name)
	if err != nil || queue == "" {
		return err
	}
	return fmt.Errorf("%w: %q is one of the %d partitions of queue %q: consume %[4]q, ordered and with %[3]d partitions "+
		"(strikes consume --ordered --partitions %[3]d %[5]s)", ErrRefused, name, n, queue, shell.Operands(queue))
}

// CheckRoute returns a [*RefusedError] if it knows that a message which the queue rejects now would be lost or come
// back, else nil. After any other error nothing is known. Consumers repeat the check while they run, because a route
// can break.
//
// It judges only the facts that it can see. Without need.Management it sees that the dead-letter exchange does not
// exist. If that is the default exchange, it sees that its queue does not exist, is full or does not answer. Otherwise
// it sees that the queue with the usual name (orders.dlq behind orders.dlx) does not answer: its node is down, or the
// broker has just started, and the queue replays its log. With need.Management it also sees bindings, policies and
// other such queues. A quorum queue with at-least-once dead lettering keeps its dead letters through all of that; there
// only a loop is an error. CheckRoute changes nothing, waits for no policy, and uses channels of its own. With
// AllowDrop it checks nothing.
func CheckRoute(ctx context.Context, conn *amqp.Connection, need Need) error {
	if need.AllowDrop {
		return nil
	}
	findings, err := inspect.CheckRoute(ctx, conn, need.inspect())
	if err != nil {
		return fmt.Errorf("topology: %w", err)
	}
	return need.judge(ctx, findings)
}

// judge logs the warnings, and refuses the queue for errors.
func (n Need) judge(ctx context.Context, findings []inspect.Finding) error {
	var refused []Finding
	for _, f := range findings {
		if f.Severity >= inspect.Error {
			refused = append(refused, Finding{Code: f.Code, Seen: f.Seen, Impact: f.Impact, Fix: f.Fix})
		} else if n.Logger != nil {
			n.Logger.LogAttrs(ctx, slog.LevelWarn, "topology: "+f.Seen, slog.String("queue", n.Queue),
				slog.String("code", f.Code), slog.String("impact", f.Impact), slog.String("fix", f.Fix))
		}
	}
	if len(refused) > 0 {
		return &RefusedError{Queue: n.Queue, Findings: refused}
	}
	return nil
}

// Finding is one reason why a queue must not be consumed from.
type Finding struct {
	Code   string // stable, such as "requeue-to-tail"
	Seen   string // the fact
	Impact string // the consequence
	Fix    string // the change to make; Check.Management and AllowDrop are the Management and AllowDrop of Need
}

// String returns the finding on one line.
func (f Finding) String() string {
	return fmt.Sprintf("%s: %s; %s. To fix: %s", f.Code, f.Seen, f.Impact, f.Fix)
}

// RefusedError is returned by [Check] for a queue that must not be consumed from. Do not retry it: nothing changes
// until the queue, the broker or the Need does.
type RefusedError struct {
	Queue    string
	Findings []Finding // at least one
}

// Error names the queue and gives each finding, one a line if there are several.
func (e *RefusedError) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "topology: queue %q refused", e.Queue)
	if len(e.Findings) == 1 {
		return b.String() + ": " + e.Findings[0].String()
	}
	fmt.Fprintf(&b, " for %d reasons", len(e.Findings))
	for i, f := range e.Findings {
		fmt.Fprintf(&b, "\n  %d. %s", i+1, f)
	}
	return b.String()
}

// A FieldError says which setting is refused; nothing was done with it. Field is its name, such as "DeliveryLimit".
// Value is the refused value, as text, never with a password. Want says which values are allowed. errors.As finds it;
// a retry does not help.
type FieldError = setting.FieldError
