package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/topology"
)

// storeChecker is a Counter that can tell beforehand what is wrong with its store.
type storeChecker interface {
	Check(ctx context.Context) (warnings []string, err error)
}

// checked is check with a timeout.
func (s *session) checked(ctx context.Context, conn *amqp.Connection) error {
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	check := func() (struct{}, error) { return struct{}{}, s.check(during, conn) }
	_, err := await(ctx, checkTimeout, check, func(struct{}) {})
	if errors.Is(err, errNoReply) {
		return fmt.Errorf("consumer: queue %q: checking the topology: %w", s.Queue, err)
	}
	return err
}

// lookForDelay is openDelayQueues with a timeout.
func (s *session) lookForDelay(ctx context.Context, conn *amqp.Connection) error {
	during, cancel := context.WithCancel(ctx)
	defer cancel()
	_, err := await(ctx, checkTimeout, func() (struct{}, error) {
		return struct{}{}, s.openDelayQueues(during, conn)
	}, func(struct{}) {})
	return err
}

// check refuses a store or a topology that would lose messages or counts. A store that is away is no reason to refuse:
// first deliveries do not need it.
func (s *session) check(ctx context.Context, conn *amqp.Connection) error {
	if err := s.checkStore(ctx); err != nil {
		return err
	}
	if err := s.checkLanes(ctx); err != nil {
		return err
	}
	check := s.Check
	if check == nil {
		check = func(ctx context.Context, conn *amqp.Connection) error {
			return topology.Check(ctx, conn, topology.Need{
				Queue: s.Queue, MaxRetries: s.MaxRetries, Ordered: s.Ordered, AllowDrop: s.AllowDrop, Management: s.Management,
				HTTPClient: s.HTTPClient,
				Logger:     s.Logger,
			})
		}
	}
	if err := check(ctx, conn); err != nil {
		err = fmt.Errorf("consumer: queue %q is refused: %w", s.Queue, err)
		if conn.IsClosed() || isNetwork(err) || errors.Is(err, context.Canceled) {
			return err
		}
		return refusal{err}
	}
	return nil
}

// isNetwork reports whether a connection failed that had been made. amqp091-go may return this before its connection
// says that it is closed.
func isNetwork(err error) bool {
	var failed *net.OpError
	return errors.As(err, &failed) && failed.Op != "dial"
}

func (s *session) checkStore(ctx context.Context) error {
	store, ok := s.Counter.(storeChecker)
	if !ok {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, stepTimeout)
	defer cancel()
	warnings, err := store.Check(ctx)
	for _, w := range warnings {
		s.Logger.Warn(w, "queue", s.Queue)
	}
	switch {
	case err == nil:
		return nil
	case neverServes(err):
		return refusal{fmt.Errorf("consumer: queue %q: %w", s.Queue, err)}
	}
	s.Logger.Warn("the store is out of reach: first deliveries are handled, redeliveries and failures are held until "+
		"it is back", "queue", s.Queue, "error", err)
	return nil
}

// ErrLanesBlocked says that a queue with blocked lanes was refused to a consumer without HoldLanes.
var ErrLanesBlocked = errors.New("lanes are blocked")

// checkLanes refuses a queue with blocked lanes to a consumer that would not hold them. If the store is away, its last
// number stands; without one it is no reason to refuse.
func (s *session) checkLanes(ctx context.Context) error {
	store, ok := s.Counter.(LaneKeeper)
	if !ok || s.holds != nil {
		return nil
	}
	var held int
	err := sendOnce(ctx, stepTimeout, func(ctx context.Context) (err error) {
		held, err = store.BlockedLanes(ctx, s.vhost, s.Queue)
		return err
	})
	var failed *counter.StoreError
	switch {
	case errors.As(err, &failed) && neverServes(err):
		return refusal{fmt.Errorf("consumer: queue %q: reading whether its lanes are blocked: %w", s.Queue, err)}
	case err == nil:
		s.control.noteLanes(held)
	default:
		held = s.control.blockedLanes()
		s.Logger.Warn("whether lanes of the queue are blocked is not known: the last number stands", "queue", s.Queue,
			"blocked", held, "error", err)
	}
	if held == 0 {
		return nil
	}
	return refusal{fmt.Errorf("consumer: queue %q is refused: %d of its %w, and their new messages would overtake the "+
		"dead letters: set HoldLanes and Lane to consume it, or release the lanes (strikes lane list)", s.Queue, held,
		ErrLanesBlocked)}
}

// neverServes reports whether no waiting will make this store count.
func neverServes(err error) bool {
	var store *counter.StoreError
	if errors.As(err, &store) {
		return store.Fault == counter.FaultDenied || store.Fault == counter.FaultNotRedis
	}
	return true
}
