package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/topology"
)

// A Check says how a session makes sure that its queue loses no message. Before it consumes, the session checks that
// the queue exists, that dead letters land in a queue, and that a requeued message goes to the head. Otherwise it
// refuses the queue. While it consumes, the session checks the dead-letter route again before it sends a dead letter,
// once in 10 s at most. Dead letters wait while the route is broken. The zero value asks AMQP alone. For example,
// Check{Management: "http://user:password@host:15672"} also accepts a dead-letter exchange that a policy sets.
type Check struct {
	// AllowDrop accepts a queue without a dead-letter route. The broker then drops messages that fail too often.
	AllowDrop bool

	// Management is the URL of the broker's management API, such as http://user:password@host:15672. The API reports
	// policies and the bindings of the dead-letter exchange, which AMQP does not. If empty, a queue whose dead-letter
	// exchange is set by policy is refused.
	Management string

	HTTPClient *http.Client // for Management; if nil, one that keeps no connections

	// Instead replaces both checks. At the start its error refuses the session. Before a dead letter its error makes the
	// dead letter wait until Instead returns nil. If Instead is nil, the checks are topology.Check and
	// topology.CheckRoute.
	Instead func(context.Context, *amqp.Connection) error
}

// need returns the question to package topology about the consumer's queue.
func (c Check) need(queue string) topology.Need {
	return topology.Need{Queue: queue, AllowDrop: c.AllowDrop, Management: c.Management, HTTPClient: c.HTTPClient}
}

// checkTimeout is how long the Check may take; topology's own waits 15 s for a policy to show.
const checkTimeout = time.Minute

// checked is check with a timeout.
func (s *session) checked(ctx context.Context, conn *amqp.Connection) error {
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	check := func() (none struct{}, err error) {
		if err = s.check(during, conn); err == nil {
			err = s.rooms.check(during, conn)
		}
		return none, err
	}
	_, err := bound.Await(ctx, checkTimeout, check, func(struct{}) {})
	if errors.Is(err, bound.ErrNoReply) {
		return fmt.Errorf("consumer: queue %q: checking the topology: %w", s.Queue, err)
	}
	return err
}

// check refuses a store or a topology that would lose messages or counts. A store that is away is no reason to refuse:
// first deliveries do not need it.
func (s *settings) check(ctx context.Context, conn *amqp.Connection) error {
	check := s.Check.Instead
	if check == nil {
		need := s.Check.need(s.Queue)
		need.Partitions, need.MaxRetries, need.Ordered, need.Logger = s.Partitions, s.MaxRetries, s.Ordered, s.Logger
		need.HoldQueue = s.HoldLanes && s.Lane == nil
		check = func(ctx context.Context, conn *amqp.Connection) error { return topology.Check(ctx, conn, need) }
	}
	if err := check(ctx, conn); err != nil {
		err = fmt.Errorf("consumer: queue %q: %w", s.Queue, err)
		if conn.IsClosed() || isNetwork(err) || errors.Is(err, context.Canceled) || broker.IsAway(err) {
			return err
		}
		return refusal{err}
	}
	return s.checkStore(ctx)
}

// isNetwork reports whether a connection failed that had been made. amqp091-go may return this before its connection
// says that it is closed.
func isNetwork(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op != "dial"
}

func (s *settings) checkStore(ctx context.Context) error {
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	warnings, err := s.Counter.Check(ctx)
	for _, w := range warnings {
		s.Logger.Warn(w, "queue", s.Queue)
	}
	switch {
	case err == nil:
		return nil
	case neverServes(err):
		return refusal{fmt.Errorf("consumer: queue %q: %w", s.Queue, err)}
	}
	s.Logger.Warn("the store is out of reach: first deliveries are handled; messages that fail or are redelivered wait "+
		"unacked until it replies", "queue", s.Queue, "error", err)
	return nil
}

// neverServes reports whether no waiting will make this store count.
func neverServes(err error) bool {
	var store *counter.StoreError
	if errors.As(err, &store) {
		return store.Fault == counter.FaultDenied || store.Fault == counter.FaultOtherKind ||
			store.Fault == counter.FaultNotSetUp
	}
	return true
}
