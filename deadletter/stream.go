package deadletter

import "context"

// stream is a feed of everything. It has no more in hand than two windows: the
// second is on its way while the broker writes down that the first is settled.
type stream struct {
	q    *Queue
	s    *session
	join *joiner
	left int // to be handed out
	gone int // will not come
	all  int
	tag  uint64 // all up to this one are settled

	again bool // the last that was handed out had been returned before
}

func (q *Queue) stream(ctx context.Context, window, most int) (*stream, error) {
	if err := q.mayTake(); err != nil {
		return nil, err
	}
	s, err := q.open(ctx, 2*window)
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
	var letters []*Message
	for len(letters) < n && f.left > 0 {
		d, ok, err := f.s.next(ctx)
		if err != nil {
			return nil, err
		}
		if !ok {
			f.gone, f.left = f.left, 0
			break
		}
		f.left--
		f.again = d.Redelivered
		letters = append(letters, f.q.newLetter(&d))
	}
	return letters, f.join.join(ctx, letters)
}

// settle takes all with one command if it can: see fence.
func (f *stream) settle(letters []*Message) error {
	if n := len(letters); n > 0 && letters[n-1].tag-f.tag == uint64(n) {
		f.tag = letters[n-1].tag
		if err := f.s.ack(letters[n-1], true); err != nil {
			return err
		}
		f.s.acks = 1 // or the queue would not have delivered these
		return f.s.fence()
	}
	for _, l := range letters { // the stream ends with this one
		if err := f.s.ack(l, false); err != nil {
			return err
		}
	}
	return f.s.fence()
}

// finish returns what is in hand. It goes behind what was returned before, except
// where each goes to its very place: so that is taken as well, and all return in
// their order.
func (f *stream) finish(ctx context.Context) {
	if h := f.q.Handling; f.again && h.Hold && !h.InPlace {
		f.s.takeReturned(context.WithoutCancel(ctx), f.q.progress)
	}
	f.s.close()
}

func (f *stream) total() int  { return f.all }
func (f *stream) leave() bool { return false }

func (f *stream) missing() int { return f.gone }

func (f *stream) vhost() string { return f.s.vhost }
