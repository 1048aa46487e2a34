package publisher

import "time"

// patience bounds how long a message without confirm holds up those behind it. It is the most by which a slow queue
// delays what Publish returns for other queues.
const patience = 10 * time.Millisecond

// confirm settles written messages as the broker answers, until the session ends.
//
// The answers of one queue come in the order of writing, mostly many together. So one goroutine waits for the first and
// finds the others there; a goroutine per message costs a third of the client's time. The library's own notification is
// in order too, but holds up the confirms of every queue behind the slowest one.
func (s *session) confirm() {
	late := time.NewTimer(patience)
	defer late.Stop()
	for {
		select {
		case o := <-s.written:
			s.settleSoon(o, late)
		case <-s.ended:
			return
		}
	}
}

// settleSoon settles o when the broker answers. After patience it leaves o to another goroutine.
func (s *session) settleSoon(o *outgoing, late *time.Timer) {
	select {
	case <-o.confirm.Done():
		s.settle(o)
		return
	default:
	}
	late.Reset(time.Until(o.since.Add(patience)))
	select {
	case <-o.confirm.Done():
		s.settle(o)
	case <-late.C:
		s.spawn(func() { s.await(o) })
	case <-s.ended:
	}
}

func (s *session) await(o *outgoing) {
	select {
	case <-o.confirm.Done():
		s.settle(o)
	case <-s.ended:
	}
}

// settle passes on the broker's answer.
func (s *session) settle(o *outgoing) {
	var err error
	if !o.confirm.Acked() {
		if s.ch.IsClosed() { // the library ends every open confirm with a false when the channel closes: maybe no nack
			return
		}
		err = o.fail(false, ErrNacked)
	}
	s.confirmed.Store(true)
	s.p.settle(o, err)
}
