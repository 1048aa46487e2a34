package consumer

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/topology"
)

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
	if err := s.checkStore(ctx); err != nil {
		return err
	}
	check := s.Check
	if check == nil {
		check = func(ctx context.Context, conn *amqp.Connection) error {
			return topology.Check(ctx, conn, topology.Need{
				Queue: s.Queue, Partitions: s.Partitions, MaxRetries: s.MaxRetries, Ordered: s.Ordered,
				AllowDrop: s.AllowDrop, Management: s.Management, HTTPClient: s.HTTPClient,
				Logger: s.Logger,
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
	s.Logger.Warn("the store is out of reach: first deliveries are handled, redeliveries and failures are held until "+
		"it is back", "queue", s.Queue, "error", err)
	return nil
}

// neverServes reports whether no waiting will make this store count.
func neverServes(err error) bool {
	var store *counter.StoreError
	if errors.As(err, &store) {
		return store.Fault == counter.FaultDenied || store.Fault == counter.FaultNotRedis
	}
	return true
}
