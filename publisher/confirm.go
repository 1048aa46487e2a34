package publisher

import "time"

// patience is how long after its writing a message may go without its confirm before those behind it are looked at. It
// is the most by which a slow queue delays what Publish returns for the others.
const patience = 10 * time.Millisecond

// sent is a message and the broker's answer to it, to come: an *amqp.DeferredConfirmation.
type sent struct {
	o  *outgoing
	dc interface {
		Done() <-chan struct{}
		Acked() bool
	}
}

// confirm settles what was written as the broker answers, until the session is lost.
//
// The answers of one queue come in the order of writing, mostly many at once, so one goroutine waits for the first and
// finds the others there: a goroutine for each message costs a third of the client's time. The library's own
// notification is in order as well, but holds up the confirms of every queue behind the slowest one.
func (s *session) confirm() {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case m := <-s.written:
			s.settleSoon(m, late)
		case <-s.lost:
			return
		}
	}
}

// settleSoon settles m when the broker answers, or leaves it to a goroutine of its own when its time is over.
func (s *session) settleSoon(m sent, late *time.Timer) {
	select {
	case <-m.dc.Done():
		s.settle(m)
		return
	default:
	}
	late.Reset(time.Until(m.o.since.Add(patience)))
	select {
	case <-m.dc.Done():
		s.settle(m)
	case <-late.C:
		s.spawn(func() { s.await(m) })
	case <-s.lost:
	}
}

func (s *session) await(m sent) {
	select {
	case <-m.dc.Done():
		s.settle(m)
	case <-s.lost:
	}
}

// settle passes on the broker's answer.
func (s *session) settle(m sent) {
	if !m.dc.Acked() && s.ch.IsClosed() {
		// The library ends every open confirm with a false when the channel
		// closes, after IsClosed turned true: not known to be a nack.
		return
	}
	s.confirmed.Store(true)
	s.p.settle(m.o, func() error { return m.o.confirmed(m.dc.Acked()) })
}
