package deadletter

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
)

// ErrUndecodable is returned, with ErrInterrupted, for a queue with a message that amqp091-go cannot decode, or that
// the broker cannot convert to AMQP 0.9.1. No message behind it can be read. errors.As finds an UndecodableError.
// TakeUndecodable takes the message out.
var ErrUndecodable = errors.New("deadletter: a message cannot be decoded")

// ErrAllDecodable is returned by TakeUndecodable for a queue in which every message can be read.
var ErrAllDecodable = errors.New("deadletter: every message of the queue can be read")

// UndecodableError says which message of a queue cannot be decoded.
type UndecodableError struct {
	Queue    string
	Position int    // in the queue: 1 is its head
	AtLeast  bool   // it is at Position or behind it
	Wrong    string // the defect

	// Unconverted says that the broker cannot convert the message, so that the management API cannot read it either.
	// Only an AMQP 1.0 receiver can.
	Unconverted bool

	cause error
}

func (e *UndecodableError) Error() string {
	where := fmt.Sprintf("it is message %d of the queue", e.Position)
	if e.AtLeast {
		where += ", or a later one"
	}
	return fmt.Sprintf("%v: queue %q: %s; %s; %s: %v: %v", ErrUndecodable, e.Queue, e.Wrong, where, e.wayOut(),
		ErrInterrupted, e.cause)
}

func (e *UndecodableError) wayOut() string {
	if e.Unconverted {
		return "take it out with an AMQP 1.0 receiver, once the messages before it are replayed or dropped"
	}
	return "TakeUndecodable takes it out, and leaves those before it in the queue"
}

// Unwrap returns ErrUndecodable, ErrInterrupted, and why the connection closed.
func (e *UndecodableError) Unwrap() []error { return []error{ErrUndecodable, ErrInterrupted, e.cause} }

// undecodable returns nil unless a message ended the connection that cannot be decoded.
func undecodable(queue string, read int, why error) error {
	var closed *amqp.Error
	errors.As(why, &closed)
	wrong, _ := broker.Undecodable(closed)
	if wrong == "" {
		return nil
	}
	return &UndecodableError{Queue: queue, Position: read + 1, AtLeast: true, Wrong: wrong, Unconverted: closed.Server,
		cause: why}
}

const (
	// everything is more messages than a queue has.
	everything = 1 << 40
	// mostPasses is how often TakeUndecodable looks where the message is, and mostUndecodable how many it may meet in
	// turn.
	mostPasses      = 4 * mostUndecodable
	mostUndecodable = 8
)

// head is the beginning of a queue, up to a message that cannot be decoded.
type head struct {
	n           int
	messages    [sha256.Size]byte // tells this head from others
	undecodable *UndecodableError // the next message is one; nil: none is, or it was not met
}

func (h head) equal(o head) bool { return h.n == o.n && h.messages == o.messages }

// pass takes the first messages of the queue one by one, most of them at most. So it learns exactly where an
// undecodable message is, while a consumer would receive messages ahead of those that were seen. It begins once the
// queue has least messages, because the broker may still take back those of the last pass. The session's own channel
// holds the first apart of them, and another channel the others. The session holds them until the caller closes it. It
// is nil if an undecodable message ended it.
func (q *Queue) pass(ctx context.Context, least, most, apart int) (h head, s *session, others *amqp.Channel,
	err error) {
	if s, err = q.open(ctx, &session{single: true}); err != nil {
		return h, nil, nil, err
	}
	defer func() {
		if err != nil || h.undecodable != nil {
			s.close()
			s, others = nil, nil
		}
	}()
	if others, err = s.conn.Channel(); err != nil {
		return h, s, others, s.lost()
	}
	if err = awaitReady(ctx, least, s.left); err != nil {
		return h, s, others, s.lost()
	}
	sum := sha256.New()
	for h.n < most {
		ch := others
		if h.n < apart {
			ch = s.ch
		}
		var d amqp.Delivery
		var ok bool
		if d, ok, err = s.get(ctx, ch); err != nil && !errors.As(err, &h.undecodable) {
			return h, s, others, err
		}
		if err != nil || !ok {
			break
		}
		h.n++
		_, _ = fmt.Fprintf(sum, "%q %q %q %d %s ", d.MessageId, d.Exchange, d.RoutingKey, len(d.Body), d.Body)
		q.progress("reading", h.n, 0)
	}
	sum.Sum(h.messages[:0])
	if h.undecodable != nil {
		h.undecodable.Position, h.undecodable.AtLeast = h.n+1, false
		err = nil
	}
	return h, s, others, err
}

// awaitReady waits until least messages are ready. It gives up after lingers: by then a broker has noticed that a
// connection ended.
func awaitReady(ctx context.Context, least int, ready func() (int, error)) error {
	for begun := time.Now(); least > 0 && time.Since(begun) < lingers; {
		if n, err := ready(); err != nil || n >= least {
			return err
		}
		if !pause.For(ctx, 100*time.Millisecond) {
			break // the next request fails
		}
	}
	return nil
}

// TakeUndecodable takes the first message that cannot be decoded out of the queue, and returns its position. It holds
// the messages before it, so that they stay, while the management API removes the message behind them. keep receives
// the API's JSON of the message, on one line and with the body in base64, before the message is removed, and must
// have stored it when it returns. If the process is killed then, the message may still be in the queue. The others
// keep their order.
//
// If several messages of a quorum queue cannot be decoded, the API can show one only as it removes it, so keep
// receives it after that. Others may then change their order, because a quorum queue puts returned messages behind
// those that were returned before.
//
// It wraps ErrAllDecodable if there is no such message, ErrUnsafe where reading is not harmless, and ErrUndecodable
// for a message that the API cannot read either.
func (q *Queue) TakeUndecodable(ctx context.Context, api Management, keep func(message []byte) error) (position int,
	err error) {
	if err := cmp.Or(q.validate(), q.mayRead()); err != nil {
		return 0, err
	}
	m, err := broker.NewAPI(api.URL, api.Client)
	if err != nil {
		return 0, fmt.Errorf("deadletter: %w", err)
	}
	first, next, period, err := q.recurring(ctx)
	if err != nil {
		return 0, err
	}
	if next.undecodable.Unconverted {
		return 0, next.undecodable
	}
	ahead := 0 // came to the head because others were returned behind them
	if period == 1 {
		ahead = max(next.n-first.n, 0)
	}
	before, s, others, err := q.pass(ctx, next.n+1, next.n, ahead)
	if err != nil {
		return 0, err
	}
	if s == nil {
		return 0, q.moved()
	}
	defer func() {
		_ = others.Close() // returns its messages, before the session returns the rest
		s.close()
	}()
	if !before.equal(next) {
		return 0, q.moved()
	}
	return next.n - ahead + 1, q.takeNext(ctx, m, s.vhost, period == 1, keep)
}

func (q *Queue) moved() error {
	return fmt.Errorf("%w: queue %q: its first messages change; nothing was removed; stop its other readers, and repeat",
		ErrBusy, q.Name)
}

// recurring passes over the queue until it meets the same message again. It returns the head that the first pass met
// and the one that the next will meet. A quorum queue puts the messages of a pass behind those that were returned
// before. So if several messages cannot be decoded, the passes may meet them in turn. period says how many.
func (q *Queue) recurring(ctx context.Context) (first, next head, period int, err error) {
	var met []head
	for range mostPasses {
		least := 0
		if len(met) > 0 {
			least = met[len(met)-1].n + 1
		}
		h, s, _, err := q.pass(ctx, least, everything, 0)
		if err != nil {
			return h, h, 0, err
		}
		if h.undecodable == nil {
			s.close()
			return h, h, 0, fmt.Errorf("%w: queue %q", ErrAllDecodable, q.Name)
		}
		met = append(met, h)
		for n := 1; n <= mostUndecodable && 2*n <= len(met); n++ {
			last, earlier := met[len(met)-n:], met[len(met)-2*n:len(met)-n]
			if slices.EqualFunc(last, earlier, head.equal) {
				return met[0], last[0], n, nil
			}
		}
	}
	return first, next, 0, q.moved()
}

// takeNext removes the next message of the queue through the API. If it can, it keeps the message first.
func (q *Queue) takeNext(ctx context.Context, m *broker.API, vhost string, look bool,
	keep func([]byte) error) error {
	var seen []byte
	if look {
		var err error
		if seen, err = m.Next(ctx, vhost, q.Name, false); err != nil {
			return fmt.Errorf("deadletter: queue %q: read the undecodable message: %w; nothing was removed", q.Name, err)
		}
		if err := keep(seen); err != nil {
			return err
		}
	}
	taken, err := m.Next(ctx, vhost, q.Name, true)
	switch {
	case err != nil:
		return fmt.Errorf("deadletter: queue %q: remove the undecodable message: %w; it may or may not be removed",
			q.Name, err)
	case !look:
		return keep(taken)
	case !same(seen, taken):
		return errors.Join(keep(taken), fmt.Errorf("%w: queue %q: another message came before the undecodable one and was "+
			"removed instead; it is kept too",
			ErrBusy, q.Name))
	}
	return nil
}

// same reports whether the API has shown one message twice. Its counts of deliveries differ.
func same(a, b []byte) bool {
	type message struct {
		Payload    string `json:"payload"`
		Exchange   string `json:"exchange"`
		RoutingKey string `json:"routing_key"`
		Properties struct {
			MessageID string `json:"message_id"`
		} `json:"properties"`
	}
	var one, other message
	return json.Unmarshal(a, &one) == nil && json.Unmarshal(b, &other) == nil && one == other
}
