package consumer

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// ErrUndecodable is wrapped by Consume when a session ended over a message that amqp091-go cannot decode: headers
// that are nested deeper than 32 levels, hold more than 8,192 elements in one table or array, or do not fit into a
// frame. It is wrapped too when the broker closed the connection with 541, as it does for a message that it cannot
// convert to AMQP 0.9.1. All that the session had prefetched returns with the message, and counts towards a delivery
// limit. So consume with a Prefetch of 1 until the message is gone, as Run does. With Partitions use Run: it
// begins the partition with that message first, so that no other message returns. The text says where in the queue it
// is.
var ErrUndecodable = errors.New("consumer: a message cannot be decoded")

// careFor is how long Run prefetches one after an undecodable message, if no other session meets it. It is longer than
// the longest pause between two sessions. So in a fleet the message returns while the other processes still prefetch
// one.
const careFor = 10 * time.Second

var errPassed = errors.New("the undecodable message did not come again: prefetching again")

// arrived is which messages came in a session.
type arrived struct {
	received int       // deliveries so far
	last     string    // id of the last of them
	careful  bool      // an undecodable message may be in the queue
	began    time.Time // if careful

	undecoded   string // the defect of the message that ended it, and where it is; empty: none did
	unconverted bool   // the broker could not convert it
}

func (a *arrived) note(d *delivery) { a.received, a.last = a.received+1, d.message.ID }

// lacks reports whether the session did not get a message that the broker delivered before the one with a tag: tags
// begin at 1 and have no gap.
func (a *arrived) lacks(tag uint64) bool { return tag > uint64(a.received)+1 }

// lost returns the error of a session that ended with why; says is the error of its channel or connection, if any.
func (s *session) lost(why error, says *amqp.Error) error {
	if says == nil {
		return fmt.Errorf("consumer: queue %q: %w", s.Queue, why)
	}
	wrong, fix := broker.Undecodable(says)
	if wrong == "" {
		return fmt.Errorf("consumer: queue %q: %w: %w", s.Queue, why, says)
	}
	s.arrived.undecoded, s.arrived.unconverted = wrong+"; "+s.arrived.position(s.Prefetch), broker.Unconverted(says)
	if s.source != s.Queue {
		s.arrived.undecoded = "partition " + s.source + ": " + s.arrived.undecoded
	}
	return fmt.Errorf("%w: queue %q: %s: %w: %w; %s", ErrUndecodable, s.Queue, s.arrived.undecoded, why, says, fix)
}

// position says where in the queue the undecodable message is. Its id was not read, and amqp091-go drops those before
// it that it has not handed over. So only a prefetch of one gives the exact position.
func (a *arrived) position(prefetch int) string {
	switch {
	case a.received == 0 && prefetch == 1:
		return "it is at the head of the queue"
	case a.received == 0:
		return fmt.Sprintf("it is among the first %d of the queue", prefetch)
	case a.last == "":
		return "it came after a message without an id"
	}
	return fmt.Sprintf("it came after message %q", a.last)
}

// explain returns the reason for a failed settlement, if an undecodable message closed the channel.
func (s *session) explain(l *link, err error) error {
	if !errors.Is(err, ErrSettlement) {
		return err
	}
	says := l.reason()
	if wrong, _ := broker.Undecodable(says); wrong == "" {
		return err
	}
	return s.lost(errLost, says)
}

// report reports an undecodable message that ended the session. If the store is out of reach, the next session
// reports it. A 541 proves something about a message only in a session that prefetches one, so the next one reports
// it if it meets it too.
func (s *session) report(ctx context.Context, err error) {
	if s.arrived.undecoded == "" || s.arrived.unconverted && s.Prefetch > 1 {
		return
	}
	if s.Observer != nil {
		e := Event{Outcome: OutcomeUndecodable, VHost: s.vhost, Queue: s.Queue, Err: err}
		s.guard("Observer", func() { s.Observer.Observe(context.WithoutCancel(ctx), e) })
	}
	ctx, cancel := context.WithTimeout(context.WithoutCancel(ctx), stepTimeout)
	defer cancel()
	if err := s.Counter.NoteUndecodable(ctx, s.vhost, s.Queue, s.arrived.undecoded); err != nil {
		s.Logger.Warn("the store did not note the undecodable message", "queue", s.Queue, "error", err)
	}
}

// passed reports whether a careful session has lasted long enough to end, so that the next one prefetches again. It is
// asked when a delivery comes: then everything before it is settled.
func (a *arrived) passed() bool {
	return a.careful && a.received > 0 && time.Since(a.began) > careFor
}

// beCareful has the session prefetch one message: an undecodable one may be in the queue.
func (s *session) beCareful() {
	s.Prefetch, s.arrived.careful, s.arrived.began = 1, true, time.Now()
}

// decideCareful reports whether the session that follows one which ended with err is careful.
func decideCareful(careful bool, err error) bool {
	return errors.Is(err, ErrUndecodable) || careful && !errors.Is(err, errPassed)
}

// levelOf returns the level of the log line about the end of a session: error if an operator has to act.
func levelOf(err error) slog.Level {
	if errors.Is(err, ErrUndecodable) {
		return slog.LevelError
	}
	return slog.LevelWarn
}
