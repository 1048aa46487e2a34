package deadletter

import "context"

// stream is a source of everything. It holds at most two windows: the second is on its way while the broker settles the
// first.
type stream struct {
	q      *Queue
	s      *session
	join   *joiner
	left   int // to be handed out
	gone   int // will not arrive
	all    int
	acked  uint64 // tag up to which all are settled
	behind bool   // the last message was returned before
}

func (q *Queue) stream(ctx context.Context, window, most int) (*stream, error) {
	if err := q.mayTake(); err != nil {
		return nil, err
	}
	s, err := q.open(ctx, &session{prefetch: 2 * window})
	if err != nil {
		return nil, err
	}
	n := s.ready
	if most > 0 {
		n = min(n, most)
	}
	return &stream{q: q, s: s, join: &joiner{records: q.Records, vhost: s.vhost}, left: n, all: n}, nil
}

func (f *stream) next(ctx context.Context, n int) ([]*Message, error) {
	var messages []*Message
	for len(messages) < n && f.left > 0 {
		d, ok, err := f.s.next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			f.gone, f.left = f.left, 0
			break
		}
		f.left--
		f.behind = d.Redelivered
		messages = append(messages, f.q.newMessage(&d))
	}
	return messages, f.join.join(ctx, messages)
}

// settle settles a complete window with one ack. See fence.
func (f *stream) settle(messages []*Message) error {
	if n := len(messages); n > 0 && messages[n-1].tag-f.acked == uint64(n) {
		f.acked = messages[n-1].tag
		if err := f.s.ack(messages[n-1], true); err != nil {
			return err
		}
		f.s.acks = 1 // earlier acks have arrived, or the queue would not have delivered these
		return f.s.fence()
	}
	for _, m := range messages { // the stream ends with this window
		if err := f.s.ack(m, false); err != nil {
			return err
		}
	}
	return f.s.fence()
}

// finish returns the held messages. A quorum queue puts them behind those that were returned before, so finish takes
// these too: then all return in their order.
func (f *stream) finish(ctx context.Context) {
	if h := f.q.Handling; f.behind && h.Hold && !h.InPlace {
		f.s.takeReturned(context.WithoutCancel(ctx), f.q.progress)
	}
	f.s.close()
}

func (f *stream) total() int    { return f.all }
func (f *stream) canSkip() bool { return false }
func (f *stream) missing() int  { return f.gone }
func (f *stream) vhost() string { return f.s.vhost }
