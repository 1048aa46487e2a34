package deadletter

import (
	"context"
	"fmt"
	"slices"
	"time"
)

// picked is the largest window of a choice, half of what a channel passes on: its
// letters are settled one by one.
const picked = passedOn / 2

// choice is a feed of what a filter picks. The rest is held until the end, so
// that it stays in its place.
type choice struct {
	q     *Queue
	s     *session
	join  *joiner
	f     Filter
	spool *spool
	n     int // in the spool
	of    int // messages of the queue that were read, or are to be
	gone  int // did not come
	page  []*Message
	bytes int // of bodies in the page
}

// choose reads the queue within bounds, with preview bytes of each body; -1: all.
func (q *Queue) choose(ctx context.Context, f Filter, preview int, b Bounds) (*choice, error) {
	if err := q.mayHold(); err != nil {
		return nil, err
	}
	s, err := q.start(ctx, &session{bounds: b, everything: f.Everything()})
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

// chooseAll reads the whole queue, to take off what is picked.
func (q *Queue) chooseAll(ctx context.Context, f Filter) (*choice, error) {
	c, err := q.choose(ctx, f, -1, Bounds{})
	if err == nil {
		c.s.ignore()
	}
	return c, err
}

// collect reads the queue, which it then holds, and puts what is picked on the
// spool.
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
		l := c.q.newLetter(&d)
		if err := c.q.worn(l); err != nil {
			return err
		}
		if preview >= 0 {
			l.Publishing.Body = l.Publishing.Body[:min(preview, len(l.Publishing.Body))]
		}
		ends := c.s.room == 0 || i == c.of-1 // nothing is on its way
		if err := c.pick(ctx, l, now, ends); err != nil {
			return err
		}
		c.q.progress("reading", i+1, c.of)
		if ends && c.s.bounds.enough(c.n, i+1) {
			c.of = i + 1
			break
		}
	}
	return c.spool.rewind()
}

// pick puts a letter on the spool if the filter picks it. If the number of picked
// letters bounds the reading, it asks for records in batches; last ends a batch.
func (c *choice) pick(ctx context.Context, l *Message, now time.Time, last bool) error {
	early := c.f.early(l, now)
	if c.s.bounds.Picked == 0 || !c.f.NeedsRecords() {
		if !early {
			return nil
		}
		c.n++
		return c.spool.put(l)
	}
	if early {
		c.page = append(c.page, l)
		c.bytes += len(l.Publishing.Body)
	}
	if len(c.page) < page && c.bytes < pageBytes && !last {
		return nil
	}
	if err := c.join.join(ctx, c.page); err != nil {
		return err
	}
	for _, l := range c.page {
		if !c.f.late(l) {
			continue
		}
		l.Record = nil // joined again when it is read
		if err := c.spool.put(l); err != nil {
			return err
		}
		c.n++
	}
	c.page, c.bytes = nil, 0
	return nil
}

// worn refuses to go on with a queue whose messages were looked at very often.
func (q *Queue) worn(l *Message) error {
	if limit := q.Handling.Limit; limit > 0 && l.Returns >= limit/2 {
		return fmt.Errorf("%w: message %q of queue %q was returned %d times, of the %d that its delivery limit allows: replay or drop everything that is before it",
			ErrUnsafe, l.Name(), q.Name, l.Returns, limit)
	}
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
	letters := c.page[:n:n]
	c.page = c.page[n:]
	return letters, nil
}

// page is how many letters are joined with their records together, and pageBytes
// the most that their bodies take.
const (
	page      = 100
	pageBytes = 1 << 20
)

// read returns those of the next letters on the spool that are picked, not nil
// before its end.
func (c *choice) read(ctx context.Context) ([]*Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var letters []*Message
	for size := 0; len(letters) < page && size < pageBytes; {
		l, err := c.spool.take()
		if err != nil {
			return nil, err
		}
		if l == nil {
			break
		}
		letters = append(letters, l)
		size += len(l.Publishing.Body)
	}
	if len(letters) == 0 {
		return nil, nil
	}
	if err := c.join.join(ctx, letters); err != nil {
		return nil, err
	}
	return slices.DeleteFunc(letters, func(l *Message) bool { return !c.f.late(l) }), nil
}

func (c *choice) settle(letters []*Message) error {
	for _, l := range letters {
		if err := c.s.ack(l, false); err != nil {
			return err
		}
	}
	if c.s.acks+picked > passedOn { // those of the next window might be kept back
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

func (c *choice) total() int  { return c.n }
func (c *choice) leave() bool { return true }

func (c *choice) missing() int { return c.gone }

func (c *choice) vhost() string { return c.s.vhost }
