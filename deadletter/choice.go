package deadletter

import (
	"context"
	"slices"
	"time"
)

// picked is the largest window of a choice, half of what a channel passes on: its messages are settled one by one.
const picked = passedOn / 2

// choice is a source of what a filter picks. It holds the other messages until the end, so that they keep their order.
type choice struct {
	q     *Queue
	s     *session
	join  *joiner
	f     Filter
	spool *spool
	n     int // in the spool
	of    int // messages of the queue to read
	gone  int // did not arrive
	page  []*Message
	bytes int // of bodies in the page
}

// choose reads the queue within bounds, with preview bytes of each body; -1: all.
func (q *Queue) choose(ctx context.Context, f Filter, preview int, b Bounds) (*choice, error) {
	if err := q.mayHold(); err != nil {
		return nil, err
	}
	s, err := q.open(ctx, &session{bounds: b, everything: f.Everything(), wear: &wear{q: q}})
	if err != nil {
		return nil, err
	}
	c := &choice{q: q, s: s, join: &joiner{records: q.Records, vhost: s.vhost}, f: f, of: b.most(s.ready)}
	if err := c.collect(ctx, preview); err != nil {
		s.keepOrder(context.WithoutCancel(ctx), q.progress)
		s.ignore()
		c.finish(ctx)
		return nil, err
	}
	return c, nil
}

// chooseAll reads the whole queue to take off what is picked.
func (q *Queue) chooseAll(ctx context.Context, f Filter) (*choice, error) {
	c, err := q.choose(ctx, f, -1, Bounds{})
	if err == nil {
		c.s.ignore()
	}
	return c, err
}

// collect reads the queue, holds it, and puts what is picked on the spool.
func (c *choice) collect(ctx context.Context, preview int) (err error) {
	if c.spool, err = newSpool(c.q.Dir); err != nil {
		return err
	}
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
		if ends && c.s.bounds.enough(c.n, i+1, c.s.bytes) {
			c.of = i + 1
			break
		}
	}
	return c.spool.rewind()
}

// pick puts a message on the spool if the filter picks it. If Bounds.Picked ends the reading, it looks records up in
// pages; last ends a page.
func (c *choice) pick(ctx context.Context, m *Message, now time.Time, last bool) error {
	early := c.f.early(m, now)
	if c.s.bounds.Picked == 0 || !c.f.NeedsRecords() {
		if !early {
			return nil
		}
		c.n++
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
		c.n++
	}
	c.page, c.bytes = nil, 0
	return nil
}

func (c *choice) next(ctx context.Context, n int) ([]*Message, error) {
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
func (c *choice) read(ctx context.Context) ([]*Message, error) {
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

func (c *choice) settle(messages []*Message) error {
	for _, m := range messages {
		if err := c.s.ack(m, false); err != nil {
			return err
		}
	}
	if c.s.acks+picked > passedOn { // the channel might keep acks of the next window back
		return c.s.land()
	}
	return c.s.fence()
}

func (c *choice) finish(context.Context) {
	c.s.close()
	if c.spool != nil {
		c.spool.close()
	}
}

func (c *choice) total() int    { return c.n }
func (c *choice) canSkip() bool { return true }
func (c *choice) missing() int  { return c.gone }
func (c *choice) vhost() string { return c.s.vhost }
