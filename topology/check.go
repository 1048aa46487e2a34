package topology

import (
	"context"
	"log/slog"
	"net/http"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Need is what consumers need of the queue they retry from.
type Need struct {
	Queue string // must not be empty

	// MaxRetries is how often a message is run again after its first failure.
	// If zero or negative, never. The queue's delivery limit must leave room.
	MaxRetries int

	// Ordered asks for what strict order takes: a single active consumer, and
	// nothing at the broker that reorders.
	Ordered bool

	// MaxBackoff is the longest wait before a retry, 30 s if zero. Only Examine
	// looks at it: a broker's consumer timeout must leave room for it.
	MaxBackoff time.Duration

	// AllowDrop accepts that rejected messages are lost: a queue without a
	// dead-letter exchange then passes, and one whose dead letters would be
	// lost on their way gets warnings. It does not accept a dead-letter route
	// that leads back to the queue.
	AllowDrop bool

	// Management is the URL of the broker's HTTP API, such as
	// http://user:password@host:15672; without a user, guest and its usual
	// password are sent. The user needs the tag management. Only the API tells
	// of policies and of the bindings of the dead-letter exchange. If empty,
	// the queue is judged by what AMQP tells, with the configure permission on
	// the queue: a dead-letter exchange set by policy cannot be seen and the
	// queue is refused.
	Management string

	// HTTPClient for Management; if nil, one that keeps no connections. A
	// request takes 5 s at most.
	HTTPClient *http.Client

	// Logger gets the warnings; if nil, nobody does.
	Logger *slog.Logger
}

const (
	// A new queue's policy shows in the API after 2 to 9 s.
	policyWait = 15 * time.Second
	policyPoll = 500 * time.Millisecond
)

// Check returns nil if consumers may start on the queue, a [*RefusedError]
// which says what to change if they must not, [ErrQueueNotFound], or an error
// of the connection, after which nothing is known. Warnings go to need.Logger.
//
// What decides must be shown: a queue is refused both if its messages would be
// lost or reordered and if it cannot be seen whether they would, since lost
// dead letters are silent and a refusal is not. Whether something is bound to
// the dead-letter exchange, which AMQP cannot tell, is a warning without
// Management.
//
// Check refuses a dead-letter route that leads back to the queue. It follows
// exchanges, their alternate exchanges, and queues that dead-letter on, as far
// as the routing keys in effect allow. If one of those queues has a TTL, that is
// a warning. AMQP alone can follow a route over the default exchange only.
//
// Check changes nothing on the broker. It uses channels of its own, one for
// each argument the queue has, and closes them. With Management it may wait 15 s
// for the policy of a queue that was just declared.
func Check(ctx context.Context, conn *amqp.Connection, need Need) error {
	findings, err := Inspect(ctx, conn, need)
	if err != nil {
		return err
	}
	var refused []Finding
	for _, f := range findings {
		if f.Severity >= Error {
			refused = append(refused, f)
			continue
		}
		if need.Logger != nil {
			need.Logger.LogAttrs(ctx, slog.LevelWarn, "topology: "+f.Seen, slog.String("queue", need.Queue),
				slog.String("code", f.Code), slog.String("why", f.Why), slog.String("fix", f.Fix))
		}
	}
	if len(refused) > 0 {
		return &RefusedError{Queue: need.Queue, Findings: refused}
	}
	return nil
}

// Inspect returns what is wrong with the queue, or could not be told; nothing
// if all is well. Check says how it goes about it and which errors it returns.
func Inspect(ctx context.Context, conn *amqp.Connection, need Need) ([]Finding, error) {
	return inspect(ctx, conn, need, false, rules)
}

// Examine is Inspect with a closer look, for operators: at the queues that the
// dead letters reach, at the consumers and messages that are there now, and at
// policies that match and do not apply. All of it takes Management, except for
// a dead-letter queue that is named by a routing key; what could not be seen is
// a finding too.
func Examine(ctx context.Context, conn *amqp.Connection, need Need) ([]Finding, error) {
	return inspect(ctx, conn, need, true, rules)
}

// Room is Examine for one question, that of an operator who has messages
// retried more often: does the queue's own delivery limit leave room for
// need.MaxRetries? It returns one Error if not, one Warning if only just, and
// nothing if it does, or for a queue without such a limit.
func Room(ctx context.Context, conn *amqp.Connection, need Need) ([]Finding, error) {
	return inspect(ctx, conn, need, true, []rule{deliveryLimitRule})
}

func inspect(ctx context.Context, conn *amqp.Connection, need Need, closely bool, by []rule) ([]Finding, error) {
	g, err := newGatherer(conn, need, closely)
	if err != nil {
		return nil, err
	}
	f, err := settled(ctx, g.gather, func(f facts) bool { return need.undecided(judgeBy(by, f, need), f) })
	if err != nil {
		return nil, g.failed("inspect", err)
	}
	return judgeBy(by, f, need), nil
}

// undecided says whether a policy that the API does not show yet could turn an
// error into none.
func (n Need) undecided(findings []Finding, f facts) bool {
	return n.Management != "" && slices.ContainsFunc(findings, f.policyMayMend)
}

// settled gathers again while the API does not show whether there is a policy
// and the facts leave undecided what one would decide.
func settled(ctx context.Context, gather func(context.Context) (facts, error), undecided func(facts) bool) (facts, error) {
	begun := time.Now()
	poll := time.NewTicker(policyPoll)
	defer poll.Stop()
	for {
		f, err := gather(ctx)
		if err != nil || f.apiTrouble != "" || f.PolicyKnown || !undecided(f) || time.Since(begun) >= policyWait {
			return f, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return facts{}, ctx.Err()
		}
	}
}
