package consumer

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

// A room is a feature that a plain consumer does without: it serves the sessions that need it. A delivery meets it in
// two calls. To take a room out, delete its files and its line in features.
type room interface {
	// beforeAttempt is asked before each attempt at d. It returns stepReceived if the attempt may begin, or the step that
	// replaces it. After an error it is asked again, for as long as d may be held.
	beforeAttempt(ctx context.Context, d *delivery) (step, error)

	// beforeSettlement is asked before d takes the step next, and returns next, or the step that replaces it. Errors are
	// as above. It may be asked several times for one delivery.
	beforeSettlement(ctx context.Context, d *delivery, next step) (step, error)

	// mark adds the fields of the room to a, which goes to the store with each step of an attempt.
	mark(d *delivery, a *counter.Attempt)

	// check is called before a session consumes. Its error ends the session.
	check(ctx context.Context, conn *amqp.Connection) error

	// around calls consume, which serves the session. If another session on conn is to follow, it calls session.end.
	around(ctx context.Context, conn *amqp.Connection, consume func(context.Context) error) error

	// beside runs while the session receives, until ctx ends.
	beside(ctx context.Context)

	// close is called after the last of the sessions that follow each other.
	close()
}

// feature makes rooms.
type feature struct {
	set  func(*Consumer) error               // sets defaults, refuses settings that no room can serve; nil: neither
	room func(s *session, before rooms) room // of a session that follows or joins another one; nil: it needs none
}

// rooms are those of a session.
type rooms []room

// find returns the room of a type, nil if there is none.
func find[T room](rs rooms) (found T) {
	for _, r := range rs {
		if it, ok := r.(T); ok {
			return it
		}
	}
	return found
}

func (rs rooms) beforeAttempt(ctx context.Context, d *delivery) (step, error) {
	for _, r := range rs {
		if next, err := r.beforeAttempt(ctx, d); err != nil || next != stepReceived {
			return next, err
		}
	}
	return stepReceived, nil
}

func (rs rooms) beforeSettlement(ctx context.Context, d *delivery, next step) (step, error) {
	for _, r := range rs {
		if instead, err := r.beforeSettlement(ctx, d, next); err != nil || instead != next {
			return instead, err
		}
	}
	return next, nil
}

func (rs rooms) mark(d *delivery, a *counter.Attempt) {
	for _, r := range rs {
		r.mark(d, a)
	}
}

func (rs rooms) check(ctx context.Context, conn *amqp.Connection) error {
	for _, r := range rs {
		if err := r.check(ctx, conn); err != nil {
			return err
		}
	}
	return nil
}

func (rs rooms) around(ctx context.Context, conn *amqp.Connection, consume func(context.Context) error) error {
	if len(rs) == 0 {
		return consume(ctx)
	}
	return rs[0].around(ctx, conn, func(ctx context.Context) error { return rs[1:].around(ctx, conn, consume) })
}

func (rs rooms) close() {
	for _, r := range rs {
		r.close()
	}
}

// noRoom does nothing. A room embeds it and overrides the methods that it needs.
type noRoom struct{}

func (noRoom) beforeAttempt(context.Context, *delivery) (step, error) { return stepReceived, nil }
func (noRoom) beforeSettlement(_ context.Context, _ *delivery, next step) (step, error) {
	return next, nil
}
func (noRoom) mark(*delivery, *counter.Attempt)              {}
func (noRoom) check(context.Context, *amqp.Connection) error { return nil }
func (noRoom) around(ctx context.Context, _ *amqp.Connection, consume func(context.Context) error) error {
	return consume(ctx)
}
func (noRoom) beside(context.Context) {}
func (noRoom) close()                 {}
