package deadletter

import (
	"context"
	"errors"
	"fmt"
	"iter"
)

// Bounds end a Browse before the end of the queue. The zero value reads all of
// it.
type Bounds struct {
	Picked  int // stop reading once the filter has picked so many; a few more may be yielded; zero: never
	AtLeast int // but read at least the first so many messages of the queue
	AtMost  int // read no more than the first so many messages of the queue; zero: all
}

// ErrUnread is wrapped by the UnreadError that BrowsePart yields last if Bounds
// left a part of the queue unread.
var ErrUnread = errors.New("deadletter: not all of the queue was read")

// UnreadError tells how much of a queue was read.
type UnreadError struct {
	Queue string
	Read  int
	Of    int // messages in the queue when the Browse began
}

func (e *UnreadError) Error() string {
	return fmt.Sprintf("%v: the first %d of %d messages of queue %q", ErrUnread, e.Read, e.Of, e.Queue)
}

func (*UnreadError) Unwrap() error { return ErrUnread }

// BrowsePart is Browse within bounds, for queues that are too long to be read.
// If a part was left unread it yields an UnreadError last.
//
// A quorum queue puts returned messages behind those that were returned before.
// So on such a queue BrowsePart then takes everything that an earlier Browse has
// returned, while the caller has the letters already. The iteration ends when all
// are back in their order. After a Browse of the whole queue that is the whole
// queue. So it is if the broker shows first deliveries as returned ones:
// RabbitMQ 4.0 does so for all dead letters, 4.3 for those settled by
// basic.reject.
func (q *Queue) BrowsePart(ctx context.Context, f Filter, b Bounds) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		if err := b.validate(); err != nil {
			yield(nil, err)
			return
		}
		c, err := q.browse(ctx, f, b)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.spool.close()
		ready := c.s.ready // before giveBack, which may have the session for itself
		back := c.giveBack(ctx)
		defer back.wait(q)
		if c.yield(ctx, yield) && c.of < ready {
			yield(nil, &UnreadError{Queue: q.Name, Read: c.of, Of: ready})
		}
	}
}

func (b Bounds) validate() error {
	if b.Picked < 0 || b.AtLeast < 0 || b.AtMost < 0 {
		return fmt.Errorf("deadletter: Bounds must be positive, or 0 for no bound, got Picked %d, AtLeast %d, AtMost %d", b.Picked, b.AtLeast, b.AtMost)
	}
	return nil
}

// most returns how many of the ready messages to read.
func (b Bounds) most(ready int) int {
	if b.AtMost == 0 {
		return ready
	}
	return min(b.AtMost, ready)
}

// enough reports whether no more than these need be read.
func (b Bounds) enough(picked, read int) bool {
	return b.Picked > 0 && picked >= b.Picked && read >= b.AtLeast
}

// next returns how many messages the next consumer brings, after so many were
// read. With a filter each consumer doubles what was read.
func (b Bounds) next(everything bool, read, ready, size, consumers int) int {
	left := b.most(ready) - read
	if b.Picked == 0 {
		return min(prefetchFor(left, size, consumers), max(left, 1))
	}
	n := max(b.Picked, b.AtLeast) - read
	if n <= 0 || !everything && read >= max(b.AtLeast, 1) {
		n = read
	}
	if consumers == 0 {
		n = min(n, firstPrefetch)
	}
	return stepFor(min(n, left), left, size, consumers)
}

// giving returns what a Browse holds.
type giving struct {
	done chan struct{}
	told chan Progress // the newest
}

// giveBack closes the session once that keeps the order: before it returns, if
// nothing has to be taken for that.
func (c *choice) giveBack(ctx context.Context) giving {
	g := giving{done: make(chan struct{}), told: make(chan Progress, 1)}
	end := func() {
		defer close(g.done)
		c.s.keepOrder(context.WithoutCancel(ctx), g.tell)
		c.s.ignore()
		c.s.close()
	}
	if c.s.inOrder() {
		end()
	} else {
		go end()
	}
	return g
}

// tell notes progress for the goroutine of the caller.
func (g giving) tell(doing string, done, of int) {
	select {
	case <-g.told:
	default:
	}
	g.told <- Progress{doing, done, of}
}

// wait returns when all is back.
func (g giving) wait(q *Queue) {
	for {
		select {
		case at := <-g.told:
			q.progress(at.Doing, at.Done, at.Of)
		case <-g.done:
			return
		}
	}
}
