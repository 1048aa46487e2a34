package consumer

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// CopyHeader is the header with the number of a copy that waited in a delay queue, an int64 from 1. Do not set it.
const CopyHeader = queueinfo.CopyHeader

// DefaultDelayAbove is DelayAbove if that is zero: one minute.
const DefaultDelayAbove = time.Minute

// delayLease is how long after the handler timeout an open attempt at a moved message still counts as running.
const delayLease = 30 * time.Second

// mover is a Counter that can move messages.
type mover interface {
	Moved(ctx context.Context, a counter.Attempt, copyNumber int64) error
}

// delayQueues are those of a session: messages that must wait for longer than above are published to a bucket and
// acked. A nil *delayQueues moves nothing.
type delayQueues struct {
	above time.Duration
	send  func(ctx context.Context, bucket, queue string, copied amqp.Publishing) error // returns nil once it is confirmed
	close func()                                                                        // after the last send
}

// delayOf returns the arguments of a step for the delay queues.
func (s *session) delayOf(d *delivery) counter.Delay {
	if s.delayQueues == nil && d.copyNumber == 0 {
		return counter.Delay{}
	}
	if d.body == "" {
		d.body = fingerprintOf(d.Delivery)
	}
	l := counter.Delay{CopyNumber: d.copyNumber, Lease: min(s.HandlerTimeout, s.ConsumerTimeout) + delayLease, Body: d.body}
	if s.delayQueues != nil {
		l.Above = s.delayQueues.above
	}
	return l
}

// fingerprintOf distinguishes messages with the same id, by their bodies and the seconds of their timestamps.
func fingerprintOf(d amqp.Delivery) string {
	second := int64(0)
	if !d.Timestamp.IsZero() {
		second = d.Timestamp.Unix()
	}
	sum := sha256.New()
	sum.Write(append(strconv.AppendInt(nil, second, 10), '\n'))
	sum.Write(d.Body)
	return hex.EncodeToString(sum.Sum(nil)[:8])
}

// move publishes the copy of a message after the reply MOVE. It returns stepMoved once the copy is confirmed, else
// the step that asks the store again, because the copy may no longer be needed.
func (s *session) move(ctx context.Context, d *delivery, again step) step {
	if ctx.Err() != nil {
		return stepLeave
	}
	err := s.publishCopy(ctx, d)
	if err == nil {
		s.noteMoved(ctx, d)
		d.unmoved = 0
		return stepMoved
	}
	if ctx.Err() != nil {
		return stepLeave
	}
	d.unmoved++
	if d.unmoved == 1 {
		s.observe(ctx, d, Event{Outcome: OutcomeHold, Err: err})
		s.Logger.Warn("the delay queue did not take a message; it is held, and the move is repeated", "queue", s.Queue,
			"error", err)
	}
	wait, next := decideWait(min(storeBackoff(d.unmoved), d.reply.Wait), time.Until(d.heldUntil), again)
	switch {
	case !pause.For(ctx, wait):
		return stepLeave
	case next == stepOverdue:
		return s.overdue(ctx, d)
	}
	return next
}

var errNoDelay = errors.New("consumer: the store asks to move a message, but this consumer has no delay queues")

func (s *session) publishCopy(ctx context.Context, d *delivery) error {
	bucket, fits := queueinfo.BucketFor(d.reply.Wait)
	if s.delayQueues == nil || !fits {
		return errNoDelay
	}
	if err := s.delayQueues.send(ctx, bucket.Name, s.Queue, s.copyOf(d)); err != nil {
		return fmt.Errorf("consumer: queue %q: publishing a message to a delay queue, exchange %q: %w", s.Queue,
			bucket.Name, err)
	}
	return nil
}

// noteMoved reports once that the copy is confirmed. If the report is lost, the START of the copy replaces it.
func (s *session) noteMoved(ctx context.Context, d *delivery) {
	if m, ok := s.Counter.(mover); ok {
		_ = sendOnce(ctx, stepTimeout, func(ctx context.Context) error { return m.Moved(ctx, s.counted(d), d.reply.CopyNumber) })
	}
}

// copyOf returns the message that waits instead of d. It keeps the properties and headers of d, except for what the
// broker would act on or refuse: x-death and the like, which RabbitMQ 3.10 would count on; CC and BCC, by which d was
// routed; the expiration, which began with the first publishing; and the user, which must be that of the connection.
func (s *session) copyOf(d *delivery) amqp.Publishing {
	headers := d.ours.Copy()
	maps.DeleteFunc(headers, func(name string, _ any) bool { return ofTheBroker(name) })
	headers[queueinfo.CopyHeader] = d.reply.CopyNumber
	delete(headers, queueinfo.CopyGenerationHeader)
	if queueinfo.ReadKnown(headers, s.Queue, false).Generation() != d.message.Generation {
		headers[queueinfo.CopyGenerationHeader] = d.message.Generation
	}
	if fence := max(carriedFence(d.ours), d.reply.Fence); fence > 0 {
		headers[FenceHeader] = fence
	}
	queueinfo.WriteFor(headers, s.Queue, d.MessageId, d.Body)
	return amqp.Publishing{
		Headers: headers, Body: d.Body, DeliveryMode: amqp.Persistent, MessageId: d.MessageId, Priority: d.Priority,
		Type: d.Type, AppId: d.AppId,
		ContentType: d.ContentType, ContentEncoding: d.ContentEncoding, CorrelationId: d.CorrelationId, ReplyTo: d.ReplyTo,
		Timestamp: d.Timestamp,
	}
}

func ofTheBroker(header string) bool {
	switch header {
	case "CC", "BCC", "x-death", "x-delivery-count", "x-acquired-count":
		return true
	}
	return strings.HasPrefix(header, "x-first-death-") || strings.HasPrefix(header, "x-last-death-")
}

// validateDelay refuses a DelayAbove that would break the order, or that is longer than a delivery may be held.
func (c *Consumer) validateDelay() error {
	most := max(cmp.Or(c.ConsumerTimeout, DefaultConsumerTimeout)/2, DefaultDelayAbove)
	switch {
	case c.DelayAbove > 0 && c.Ordered:
		return refused(c.Queue, "DelayAbove", c.DelayAbove,
			"0 when Ordered, because a message that waits elsewhere is overtaken")
	case c.DelayAbove > 0 && (c.DelayAbove < DefaultDelayAbove || c.DelayAbove > most):
		return refused(c.Queue, "DelayAbove", c.DelayAbove, fmt.Sprintf("%v to %v, half the consumer timeout; 0 for %v, "+
			"negative for no delay queues", DefaultDelayAbove, most, DefaultDelayAbove))
	}
	return nil
}

// openDelayQueues gives the session its delay queues, if the buckets exist. A positive DelayAbove requires them.
func (s *session) openDelayQueues(ctx context.Context, conn *amqp.Connection) error {
	c := s.Consumer
	if c.DelayAbove < 0 || c.Ordered {
		return nil
	}
	why, found, err := s.delayTrouble(ctx, conn)
	switch {
	case err != nil:
		return fmt.Errorf("consumer: queue %q: checking the delay queues: %w", s.Queue, err)
	case why == "":
		sent := newCopies(conn)
		s.delayQueues = &delayQueues{above: cmp.Or(c.DelayAbove, DefaultDelayAbove), send: sent.send, close: sent.close}
		return nil
	case c.DelayAbove > 0:
		return refusal{refused(s.Queue, "DelayAbove", c.DelayAbove,
			"0 or negative, because the delay queues cannot be used: "+why)}
	case found:
		s.Logger.Warn("the delay queues cannot be used; messages with long delays are held", "queue", s.Queue, "why", why)
	}
	return nil
}

// delayTrouble returns why the session cannot use the delay queues, empty if it can, and whether the virtual host has
// one.
func (s *session) delayTrouble(ctx context.Context, conn *amqp.Connection) (why string, found bool, err error) {
	exist, wrong, unread, err := queueinfo.BucketsOf(ctx, conn)
	if err != nil {
		return "", false, err
	}
	found = exist == queueinfo.Yes
	for _, one := range unread {
		s.Logger.Warn("the delay queues could not be checked", "queue", s.Queue, "seen", one)
	}
	least := queueinfo.LongestBucket + min(s.HandlerTimeout, s.ConsumerTimeout) + ttlMargin
	keeper, keeps := s.Counter.(recordKeeper)
	_, moves := s.Counter.(mover)
	switch {
	case !found:
		return "its queues do not exist; declare them: topology.Declare with DelayQueues", false, nil
	case len(wrong) > 0:
		return strings.Join(wrong, "; ") + "; drain and delete what differs, then declare it again: topology.Declare " +
			"with DelayQueues", true, nil
	case !moves:
		return "the Counter has no method Moved", true, nil
	case keeps && keeper.TTL() < least:
		return fmt.Sprintf("the TTL of Counter is %v, and must be at least %v, because a message may wait for a day",
			keeper.TTL(), least), true, nil
	}
	err = queueinfo.OnChannel(ctx, conn, func(ch *amqp.Channel) error { // the queue may have been declared again
		return ch.QueueBind(s.Queue, s.Queue, queueinfo.DelayExchange, false, nil)
	})
	if err != nil && queueinfo.UnlessRefused(err) == nil {
		if s.DelayAbove > 0 {
			return "", true, refusal{fmt.Errorf("the queue cannot be bound to %q, over which messages come back: %w",
				queueinfo.DelayExchange, err)}
		}
		return fmt.Sprintf("the queue cannot be bound to %q, over which messages come back: %v", queueinfo.DelayExchange,
			err), true, nil
	}
	return "", true, err
}
