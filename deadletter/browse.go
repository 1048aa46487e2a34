package deadletter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"iter"
)

// Browse yields the dead letters that the filter picks, in their order and with their records. It reads the queue and
// returns all messages to it before it yields the first, so the caller holds nothing; later changes of the queue are
// not seen. It wraps ErrUnsafe where reading is not harmless. It yields an error once and then stops.
func (q *Queue) Browse(ctx context.Context, f Filter) iter.Seq2[*Message, error] {
	return q.BrowsePart(ctx, f, Bounds{})
}

// Bounds end a Browse before the end of the queue. The zero value reads all of it.
type Bounds struct {
	Picked int // stop reading once the filter has picked so many; a few more may be yielded; zero: never
	AtMost int // read at most so many messages of the queue; zero: all
	Bytes  int // stop reading once the bodies have so many bytes together; a few more messages may be read; zero: never
}

// ErrUnread is wrapped by the UnreadError that BrowsePart yields last if it left a part of the queue unread.
var ErrUnread = errors.New("deadletter: not all of the queue was read")

// UnreadError says how much of a queue was read.
type UnreadError struct {
	Queue string
	Read  int
	Of    int // messages in the queue when the Browse began
}

func (e *UnreadError) Error() string {
	return fmt.Sprintf("%v: the first %d of %d messages of queue %q", ErrUnread, e.Read, e.Of, e.Queue)
}

func (*UnreadError) Unwrap() error { return ErrUnread }

// BrowsePart is Browse within bounds, for long queues. It yields an UnreadError last if it left a part unread.
//
// A quorum queue puts returned messages behind those that were returned before. So BrowsePart also takes everything
// that an earlier Browse has returned; the caller has its messages before that. The iteration ends when all are back in
// their order. After a Browse of the whole queue that is the whole queue. The same holds where the broker marks first
// deliveries as returned: RabbitMQ 4.0 does so for all dead letters, 4.3 for those settled by basic.reject.
func (q *Queue) BrowsePart(ctx context.Context, f Filter, b Bounds) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		if err := cmp.Or(b.validate(), q.validate()); err != nil {
			yield(nil, err)
			return
		}
		c, err := q.choose(ctx, f, q.Preview, b)
		if err != nil {
			yield(nil, err)
			return
		}
		defer c.spool.close()
		back := c.giveBack(ctx)
		defer func() {
			for at := range back {
				q.progress(at.Doing, at.Done, at.Of)
			}
		}()
		for {
			messages, err := c.read(ctx)
			if err != nil {
				yield(nil, err)
				return
			}
			if messages == nil {
				break
			}
			for _, m := range messages {
				if !yield(m, nil) {
					return
				}
			}
		}
		if err := incomplete(q.Name, c.gone); err != nil {
			yield(nil, err)
		} else if c.of < c.s.whole {
			yield(nil, &UnreadError{Queue: q.Name, Read: c.of, Of: c.s.whole})
		}
	}
}

func (b Bounds) validate() error {
	if min(b.Picked, b.AtMost, b.Bytes) < 0 {
		return fmt.Errorf("deadletter: Bounds must be positive, or 0 for no bound, got %+v", b)
	}
	return nil
}

// enough reports whether the reading may end.
func (b Bounds) enough(picked, bytes int) bool {
	return b.Bytes > 0 && bytes >= b.Bytes || b.Picked > 0 && picked >= b.Picked
}

// next returns how many messages the next consumer brings after so many were read. With a filter each consumer doubles
// that number.
func (b Bounds) next(everything bool, read, ready, size, consumers int) int {
	left := ready - read
	n := left
	switch {
	case b.Bytes > 0:
		return min(left, firstPrefetch/10)
	case b.Picked == 0 && consumers == 0:
		return min(max(left, 1), firstPrefetch)
	case b.Picked > 0:
		if n = b.Picked - read; n <= 0 || !everything && read > 0 {
			n = read
		}
	}
	if consumers == 0 {
		n = min(n, firstPrefetch)
	}
	return stepFor(min(n, left), left, size, consumers)
}

// giveBack closes the session once that keeps the order. It does so before it returns, unless messages must be taken
// for that. It returns the newest progress, and closes the channel when all messages are back.
func (c *source) giveBack(ctx context.Context) <-chan Progress {
	back := make(chan Progress, 1)
	end := func() {
		defer close(back)
		c.s.keepOrder(ctx, func(doing string, done, of int) {
			select {
			case <-back:
			default:
			}
			back <- Progress{doing, done, of}
		})
		c.s.close()
	}
	if c.s.inOrder() {
		end()
	} else {
		go end()
	}
	return back
}
