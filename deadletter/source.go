package deadletter

import (
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

	spool *spool // the picked messages; nil: a source of everything
	of    int    // messages of the queue to read
	page  []*Message
	bytes int // of bodies in the page

	left  int    // of everything: to be handed out
	acked uint64 // the tag up to which all are settled
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

// choose reads the queue within bounds, with preview bytes of each body; -1: all.
func (q *Queue) choose(ctx context.Context, f Filter, preview int, b Bounds) (*source, error) {
	if err := q.mayRead(); err != nil {
		return nil, err
	}
	s, err := q.open(ctx, &session{bounds: b, everything: f.Everything()})
	if err != nil {
		return nil, err
	}
	c := &source{q: q, s: s, join: &joiner{records: q.Records, vhost: s.vhost}, f: f, of: s.ready}
	if c.spool, err = newSpool(); err == nil {
		err = c.collect(ctx, preview)
	}
	if err != nil {
		s.keepOrder(ctx, q.progress)
		c.finish(ctx)
		return nil, err
	}
	return c, nil
}

// chooseAll reads the whole queue to take off the picked messages.
func (q *Queue) chooseAll(ctx context.Context, f Filter) (*source, error) {
	c, err := q.choose(ctx, f, -1, Bounds{})
	if err == nil {
		c.s.ignore()
	}
	return c, err
}

// collect reads the queue, holds it, and puts the picked messages on the spool.
func (c *source) collect(ctx context.Context, preview int) error {
	now := time.Now()
	for i := range c.of {
		d, ok, err := c.s.next(ctx)
		if err != nil {
			return err
		}
		if !ok {
			c.gone = c.of - i
			break
		}
		m := c.q.newMessage(&d)
		if err := c.q.Handling.check(c.q.Name, m.Returns); err != nil {
			return err
		}
		if preview >= 0 {
			m.Publishing.Body = m.Publishing.Body[:min(preview, len(m.Publishing.Body))]
		}
		ends := c.s.room == 0 || i == c.of-1 // no message is on its way
		if err := c.pick(ctx, m, now, ends); err != nil {
			return err
		}
		c.q.progress("reading", i+1, c.of)
		if ends && c.s.bounds.enough(c.total, c.s.bytes) {
			c.of = i + 1
			break
		}
	}
	return c.spool.rewind()
}

// pick puts a message on the spool if the filter picks it. If Bounds.Picked ends the reading, it looks records up in
// pages; last ends a page.
func (c *source) pick(ctx context.Context, m *Message, now time.Time, last bool) error {
	early := c.f.early(m, now)
	if c.s.bounds.Picked == 0 || !c.f.NeedsRecords() {
		if !early {
			return nil
		}
		c.total++
		return c.spool.put(m)
	}
	if early {
		c.page = append(c.page, m)
		c.bytes += len(m.Publishing.Body)
	}
	if len(c.page) < page && c.bytes < pageBytes && !last {
		return nil
	}
	if err := c.join.join(ctx, c.page); err != nil {
		return err
	}
	for _, m := range c.page {
		if !c.f.late(m) {
			continue
		}
		m.Record = nil // joined again when it is read
		if err := c.spool.put(m); err != nil {
			return err
		}
		c.total++
	}
	c.page, c.bytes = nil, 0
	return nil
}

// canSkip reports whether a message can stay in the queue while later ones are taken off.
func (c *source) canSkip() bool { return c.spool != nil }

// commits reports whether messages that it has handed out are to be settled even if the work is interrupted, because
// their return may delete them.
func (c *source) commits() bool { return c.s.single }

// next returns n messages, or fewer if there are no more; none at the end.
func (c *source) next(ctx context.Context, n int) ([]*Message, error) {
	if c.spool == nil {
		return c.arrive(ctx, n)
	}
	for len(c.page) < n {
		more, err := c.read(ctx)
		if err != nil {
			return nil, err
		}
		if more == nil {
			break
		}
		c.page = append(c.page, more...)
	}
	n = min(n, len(c.page))
	messages := c.page[:n:n]
	c.page = c.page[n:]
	return messages, nil
}

// page is how many messages are joined with their records together, and pageBytes how large their bodies may be.
const (
	page      = 100
	pageBytes = 1 << 20
)

// read returns the picked ones of the next messages on the spool. It returns nil only at the end.
func (c *source) read(ctx context.Context) ([]*Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var messages []*Message
	for size := 0; len(messages) < page && size < pageBytes; {
		m, err := c.spool.take()
		if err != nil {
			return nil, err
		}
		if m == nil {
			break
		}
		messages = append(messages, m)
		size += len(m.Publishing.Body)
	}
	if len(messages) == 0 {
		return nil, nil
	}
	if err := c.join.join(ctx, messages); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(messages, func(m *Message) bool { return !c.f.late(m) }), nil
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
