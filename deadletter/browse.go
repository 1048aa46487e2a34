package deadletter

import (
	"cmp"
	"context"
	"iter"
)

// Browse yields the dead letters that the filter picks, in their order and with their records. While it yields, it
// holds the messages that it has read. It returns all to the queue when the iteration ends. Until then other calls
// return ErrBusy. To read only a part of the queue, end the iteration early; Browse may have read some messages more.
// See also Queue.MostRead and Queue.MostBytes. Browse wraps ErrUnsafe where reading is not harmless. It yields an error
// once and then stops.
//
// A quorum queue puts returned messages behind those that were returned before. So a Browse that reads a part also
// takes all messages that an earlier Browse has returned, at its end. After a Browse of the whole queue that is the
// whole queue. The same holds where the broker marks first deliveries as returned: RabbitMQ 4.0 does so for all dead
// letters, 4.3 for those settled by basic.reject.
func (q *Queue) Browse(ctx context.Context, f Filter) iter.Seq2[*Message, error] {
	return func(yield func(*Message, error) bool) {
		if err := cmp.Or(q.validate(), q.mayRead()); err != nil {
			yield(nil, err)
			return
		}
		c, err := q.read(ctx, f, q.Preview, q.MostRead)
		if err != nil {
			yield(nil, err)
			return
		}
		defer func() {
			c.s.keepOrder(ctx, q.progress)
			c.s.close()
		}()
		for over := false; !over; over = over || c.enough() {
			var messages []*Message
			if messages, over, err = c.page(ctx, c.receive); err != nil {
				yield(nil, err)
				return
			}
			for _, m := range messages {
				if !yield(m, nil) {
					return
				}
			}
		}
		if err := incomplete(q.Name, c.gone); err != nil {
			yield(nil, err)
		}
	}
}
