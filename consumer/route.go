package consumer

import (
	"context"
	"errors"
	"log/slog"
	"sync"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer/internal/bound"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/topology"
)

const (
	// routeEvery is the least time between two checks of the dead-letter route, which come only before a dead letter is
	// sent.
	routeEvery = 10 * time.Second

	// routeTimeout bounds a check. Each of topology's requests to the management API takes 5 s at most. A queue that does
	// not answer for 10 s breaks the route. So a check that takes longer says nothing about a queue.
	routeTimeout = 20 * time.Second

	// routeHold is how long a dead letter is held. Then its session ends, and the next one is refused until the route is
	// whole. To requeue it instead would count towards a delivery limit, at which the broker dead-letters it along the
	// broken route.
	routeHold = 9 * time.Minute

	// renewEvery is how often the tombstone of a held dead letter is renewed. It binds for ten minutes.
	renewEvery = time.Minute
)

// route is the dead-letter route of a session's queue. A nil route is whole.
type route struct {
	check  func(context.Context) error
	logger *slog.Logger
	queue  string

	mu      sync.Mutex
	checked time.Time
	broken  error
}

// newRoute returns the route of a queue that was just checked.
func (s *settings) newRoute(conn *amqp.Connection) *route {
	check := func(ctx context.Context) error {
		err := topology.CheckRoute(ctx, conn, s.Check.need(s.source))
		if refused := new(topology.RefusedError); err != nil && !errors.As(err, &refused) {
			return errors.Join(errUnknown, err)
		}
		return err
	}
	if s.Check.Instead != nil {
		check = func(ctx context.Context) error { return s.Check.Instead(ctx, conn) }
	}
	return &route{check: check, logger: s.Logger, queue: s.Queue}
}

// errUnknown is wrapped by a check without a result.
var errUnknown = errors.New("the state of the dead-letter route is unknown")

var errUnchecked = errors.New("the session ended before the dead-letter route was checked")

// state returns the time until the next check, and why the route is broken; nil if it is not known to be. One caller
// checks, the others wait for its result.
func (r *route) state(ctx context.Context) (next time.Duration, broken error) {
	if r == nil {
		return 0, nil
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	if time.Since(r.checked) >= routeEvery {
		if r.ask(ctx); ctx.Err() != nil && r.broken == nil {
			return routeEvery, errUnchecked // the delivery returns with its session
		}
	}
	return routeEvery - time.Since(r.checked), r.broken
}

func (r *route) ask(ctx context.Context) {
	check := func() (none struct{}, err error) { return none, r.check(ctx) }
	_, err := bound.Await(ctx, routeTimeout, check, func(struct{}) {})
	if ctx.Err() != nil {
		return
	}
	r.checked = time.Now()
	if errors.Is(err, errUnknown) || errors.Is(err, bound.ErrNoReply) {
		return // the last result stays
	}
	switch {
	case err != nil && r.broken == nil:
		r.logger.Warn("the dead-letter route is broken: dead letters are held until it is whole", "queue", r.queue,
			"error", err)
	case err == nil && r.broken != nil:
		r.logger.Info("the dead-letter route is whole again", "queue", r.queue)
	}
	r.broken = err
}

// awaitRoute holds a dead letter until it may be sent. It returns stepDeadLetter then, or the step that replaces it.
// Other deliveries have its worker meanwhile.
func (s *session) awaitRoute(ctx context.Context, d *delivery) step {
	s.release(ctx, d)
	if wait := time.Until(s.deadLettersFrom); wait > 0 && !pause.For(ctx, wait) {
		return stepLeave
	}
	for {
		wait, broken := s.route.state(ctx)
		if broken == nil {
			return stepDeadLetter
		}
		if d.result.missing { // its gate must not wait for the route
			s.failLate(d)
		}
		s.renewTombstone(ctx, d)
		if d.route.broken == nil {
			d.route.until = time.Now().Add(min(routeHold, time.Until(s.heldUntil(d))))
			s.observe(ctx, d, Event{Outcome: OutcomeHold, Err: broken})
		}
		d.route.broken = broken
		wait, next := decideWait(wait, time.Until(d.route.until), stepDeadLetter)
		switch {
		case !pause.For(ctx, wait):
			return stepLeave
		case next == stepOverdue:
			return s.overdue(d)
		}
	}
}

// renewTombstone renews the tombstone of a held dead letter by a START that meets it, so that the message is not
// attempted again when it comes back. The result is not needed.
func (s *session) renewTombstone(ctx context.Context, d *delivery) {
	if d.message.ID == "" || time.Since(d.route.renewed) < renewEvery {
		return
	}
	d.route.renewed = time.Now()
	attempt := s.counted(d)
	attempt.First = false // the tombstone is this delivery's, not that of an earlier use of the id
	_ = bound.Step(ctx, stepTimeout, func(ctx context.Context) error {
		_, err := s.Counter.Start(ctx, attempt, rules.ModeUntracked, s.limit())
		return err
	})
}
