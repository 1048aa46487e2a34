package deadletter

import (
	"bytes"
	"context"
	"slices"
	"time"
)

// picked is the largest window of a source that picks. Its messages are settled one by one, and so many may be
// undecided after an interruption. A channel passes on twice as many.
const picked = passedOn / 2

// source hands out dead letters in their order and takes them off the queue. One of everything hands them out as they
// arrive. It holds two windows at most: the second is on its way while the broker settles the first. Where a return
// does harm, it gets each message when its window begins, and holds one window. One with a filter that picks reads the
// whole queue first. It holds the other messages until the end, so that they keep their order.
type source struct {
	q     *Queue
	s     *session
	join  *joiner
	f     Filter
	total int // it hands out so many at most
	gone  int // counted messages that did not arrive

	preview int        // bytes to keep of each body; negative: all
	begun   time.Time  // for the ages of messages
	spool   *spool     // the messages that may be picked; nil: a source of everything, or a Browse
	picked  []*Message // from the spool, not yet handed out

	left  int    // to be received
	acked uint64 // of everything: the tag up to which all are settled
}

// source opens the cheapest source.
func (q *Queue) source(ctx context.Context, f Filter, window, most int) (*source, error) {
	if !f.Everything() {
		return q.chooseAll(ctx, f)
	}
	if err := q.mayTake(); err != nil {
		return nil, err
	}
	s := &session{prefetch: 2 * window}
	if !q.Handling.endures() {
		if s.prefetch, s.single = window, !q.Handling.SingleActive; most > 0 {
			s.prefetch = min(window, most)
		}
	}
	s, err := q.open(ctx, s)
	if err != nil {
		return nil, err
	}
	n := s.ready
	if most > 0 {
		n = min(n, most)
	}
	return &source{q: q, s: s, join: &joiner{records: q.Records, vhost: s.vhost}, left: n, total: n}, nil
}

// read opens a source that reads the queue, most of its messages (0: all) with preview bytes of each body (-1: all).
func (q *Queue) read(ctx context.Context, f Filter, preview, most int) (*source, error) {
	s, err := q.open(ctx, &session{most: most})
	if err != nil {
		return nil, err
	}
	return &source{q: q, s: s, join: &joiner{records: q.Records, vhost: s.vhost}, f: f, preview: preview,
		begun: time.Now(), left: s.ready}, nil
}

// chooseAll reads the whole queue to take off the picked messages.
func (q *Queue) chooseAll(ctx context.Context, f Filter) (*source, error) {
	if err := q.mayRead(); err != nil {
		return nil, err
	}
	c, err := q.read(ctx, f, -1, 0)
	if err != nil {
		return nil, err
	}
	if c.spool, err = newSpool(); err == nil {
		err = c.collect(ctx)
	}
	if err != nil {
		c.s.keepOrder(ctx, q.progress)
		c.finish(ctx)
		return nil, err
	}
	c.s.ignore()
	return c, nil
}

// collect reads the queue, holds it, and puts the messages that may be picked on the spool.
func (c *source) collect(ctx context.Context) error {
	for {
		m, err := c.receive(ctx)
		switch {
		case err != nil:
			return err
		case m == nil:
			return c.spool.rewind()
		case c.f.early(m, c.begun):
			c.total++
			if err := c.spool.put(m); err != nil {
				return err
			}
		}
	}
}

// receive returns the next message of the queue; nil at the end.
func (c *source) receive(ctx context.Context) (*Message, error) {
	if c.left == 0 {
		return nil, nil
	}
	d, ok, err := c.s.next(ctx)
	if err != nil {
		return nil, err
	}
	if !ok {
		c.gone, c.left = c.left, 0
		return nil, nil
	}
	c.left--
	m := c.q.newMessage(&d)
	if err := c.q.Handling.check(c.q.Name, m.Returns); err != nil {
		return nil, err
	}
	if c.preview >= 0 && c.preview < m.Size {
		m.Publishing.Body = bytes.Clone(m.Publishing.Body[:c.preview]) // which does not keep the others in memory
	}
	c.q.progress("reading", c.s.read, c.s.ready)
	return m, nil
}

// canSkip reports whether a message can stay in the queue while later ones are taken off.
func (c *source) canSkip() bool { return c.spool != nil }

// commits reports whether messages that it has handed out are to be settled even if the work is interrupted, because
// their return may delete them.
func (c *source) commits() bool { return c.s.single }

// next returns n messages, or fewer if there are no more; none at the end.
func (c *source) next(ctx context.Context, n int) (messages []*Message, err error) {
	if c.spool == nil {
		return c.arrive(ctx, n)
	}
	for over := false; len(c.picked) < n && !over; {
		var more []*Message
		if more, over, err = c.page(ctx, c.spool.take); err != nil {
			return nil, err
		}
		c.picked = append(c.picked, more...)
	}
	n = min(n, len(c.picked))
	messages, c.picked = c.picked[:n:n], c.picked[n:]
	return messages, nil
}

// page is how many messages are joined with their records together, and pageBytes how large their bodies may be.
const (
	page      = 100
	pageBytes = 1 << 20
)

// enough reports whether MostBytes ends the reading.
func (c *source) enough() bool { return c.q.MostBytes > 0 && c.s.bytes >= c.q.MostBytes }

// page returns the picked ones of the next messages, and whether they are the last. It does not wait for a message that
// is not on its way.
func (c *source) page(ctx context.Context, next func(context.Context) (*Message, error)) (messages []*Message,
	over bool, err error) {
	for size := 0; len(messages) < page && size < pageBytes; {
		m, err := next(ctx)
		if err != nil {
			return nil, false, err
		}
		if over = m == nil; over {
			break
		}
		if c.f.early(m, c.begun) {
			messages = append(messages, m)
			size += len(m.Publishing.Body)
		}
		if c.spool == nil && (c.s.room == 0 || c.enough()) {
			break
		}
	}
	if err := c.join.join(ctx, messages); err != nil {
		return nil, false, err
	}
	return slices.DeleteFunc(messages, func(m *Message) bool { return !c.f.late(m) }), over, nil
}

// arrive is next for a source of everything.
func (c *source) arrive(ctx context.Context, n int) (messages []*Message, err error) {
	for len(messages) < n && c.left > 0 {
		d, ok, err := c.s.next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			c.gone, c.left = c.left, 0
			break
		}
		c.left--
		m := c.q.newMessage(&d)
		messages = append(messages, m)
		if limit := c.q.Handling.Limit; limit > 0 && m.Returns >= limit {
			break // its return would delete it: it waits for no other message
		}
	}
	return messages, c.join.join(ctx, messages)
}

// settle takes messages off. After an error they may or may not be off. A complete window of everything is settled with
// one ack: see fence.
func (c *source) settle(messages []*Message) error {
	n := len(messages)
	if c.spool == nil && n > 0 && messages[n-1].tag-c.acked == uint64(n) {
		c.acked = messages[n-1].tag
		if err := c.s.ack(messages[n-1], true); err != nil {
			return err
		}
		c.s.acks = 1 // earlier acks have arrived, or the queue would not have delivered these
		return c.s.fence()
	}
	for _, m := range messages {
		if err := c.s.ack(m, false); err != nil {
			return err
		}
	}
	if c.spool != nil {
		return c.s.land()
	}
	return c.s.fence() // a source of everything ends with this window
}

// finish returns the others to the queue. A quorum queue puts them behind those that were returned before, so a source
// of everything takes these too: then all return in their order.
func (c *source) finish(ctx context.Context) {
	if c.s.single {
		_ = c.s.ch.Nack(0, true, true) // of all; RabbitMQ 4.3 and later do not count it as a return
	}
	if c.spool == nil && c.q.Handling.endures() {
		c.s.keepOrder(ctx, c.q.progress)
	}
	c.s.close()
	if c.spool != nil {
		c.spool.close()
	}
}
