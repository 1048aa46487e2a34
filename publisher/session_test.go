package publisher

import (
	"context"
	"errors"
	"log/slog"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// stalled is a log handler that blocks until goOn is closed, like a pipe whose reader has stopped.
type stalled struct {
	slog.Handler
	goOn chan struct{}
}

func (h stalled) Enabled(context.Context, slog.Level) bool { return true }

func (h stalled) Handle(context.Context, slog.Record) error {
	<-h.goOn
	return nil
}

// TestAStalledLogHoldsUpNoReturn: the library drops a basic.return that is not taken for 5 s. Then its message would
// count as published.
func TestAStalledLogHoldsUpNoReturn(t *testing.T) {
	log := stalled{goOn: make(chan struct{})}
	defer close(log.goOn)
	s := &session{p: &Publisher{opts: Options{Logger: slog.New(log)}}}
	done := make(chan struct{})
	go func() {
		defer close(done)
		s.block(amqp.Blocking{Active: true, Reason: "memory"})
		s.block(amqp.Blocking{})
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("the session waits for its log")
	}
}

// answer is a confirm that comes when the test closes it.
type answer chan struct{}

func (a answer) Done() <-chan struct{} { return a }
func (a answer) Acked() bool {
	select {
	case <-a:
		return true
	default:
		return false
	}
}

// written returns a session that wrote n messages to different queues, without their confirms.
func written(t *testing.T, n int) (s *session, answers []answer, messages []*outgoing) {
	t.Helper()
	p := &Publisher{opts: (&Options{Window: n}).withDefaults(), ledger: newLedger(), slots: make(chan struct{}, n)}
	s = &session{p: p, ended: make(chan struct{}), written: make(chan *outgoing, n)}
	for range n {
		o := newOutgoing("", "orders", &amqp.Publishing{})
		if other, err := p.ledger.add(o); other != nil || err != nil {
			t.Fatal(other, err)
		}
		p.slots <- struct{}{}
		p.ledger.take(o)
		a := make(answer)
		p.ledger.noteWritten(o, a)
		s.written <- o
		answers, messages = append(answers, a), append(messages, o)
	}
	return s, answers, messages
}

func settledAfter(t *testing.T, o *outgoing) time.Duration {
	t.Helper()
	began := time.Now()
	select {
	case <-o.done:
		if o.err != nil {
			t.Error(o.err)
		}
	case <-time.After(time.Hour):
		t.Fatal("the message is never settled")
	}
	return time.Since(began)
}

// TestSlowQueueHoldsUpNoOther confirms the last of many messages before the others.
func TestSlowQueueHoldsUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const n = 1000
		s, answers, messages := written(t, n)
		s.spawn(s.confirm)
		close(answers[n-1])
		if took := settledAfter(t, messages[n-1]); took > patience {
			t.Errorf("the others held it up for %v, at most %v are allowed", took, patience)
		}
		for i := range n - 1 { // and they are not forgotten
			close(answers[n-2-i])
			settledAfter(t, messages[n-2-i])
		}
		synctest.Wait()
		if left := len(s.p.slots); left > 0 {
			t.Errorf("%d slots of the window are not freed", left)
		}
		close(s.ended)
		s.spawned.Wait()
	})
}

// TestConfirmsEndWithTheirSession has the connection die while nothing is confirmed.
func TestConfirmsEndWithTheirSession(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, _, messages := written(t, 10)
		s.spawn(s.confirm)
		time.Sleep(patience / 2)
		close(s.ended)
		s.spawned.Wait() // or the test hangs
		for _, o := range messages {
			if o.state != writing {
				t.Error("a message without confirm is settled")
			}
		}
	})
}

// TestWriterTakesNothingAfterItsSession: a write may end long after its session. The messages in the queue are for the
// next one.
func TestWriterTakesNothingAfterItsSession(t *testing.T) {
	s, _, _ := written(t, 1)
	s.p.queue = make(chan *outgoing, 1)
	s.p.queue <- newOutgoing("", "orders", &amqp.Publishing{})
	close(s.ended)
	for range 100 {
		if o := s.write(nil); o != nil {
			t.Fatal("the writer took a message from the queue")
		}
	}
	given := newOutgoing("", "orders", &amqp.Publishing{}) // its caller has given up
	given.state = settled
	s.p.slots = make(chan struct{}, 1)
	s.p.slots <- struct{}{}
	if o, err := s.sendQueue(given); o != nil || err != nil || len(s.p.queue) != 1 {
		t.Errorf("after a message: %v, %v, and %d are in the queue", o, err, len(s.p.queue))
	}
}

// TestADroppedMessageFreesItsSlot: a write that hangs in a lost connection may return a message late. Its caller may
// have given it up by then, or the end of the session may have settled it. Its slot of the window is freed once, so
// that a later message can take it.
func TestADroppedMessageFreesItsSlot(t *testing.T) {
	for name, tc := range map[string]struct {
		meanwhile func(*Publisher, *outgoing)
		want      error
	}{
		"waits":    {func(*Publisher, *outgoing) {}, ErrConnectionLost},
		"given up": {func(p *Publisher, o *outgoing) { p.ledger.withdraw(o, context.Canceled) }, context.Canceled},
		"judged": {func(p *Publisher, o *outgoing) {
			p.ledger.take(o)
			p.settle(o, ErrNacked)
		}, ErrNacked},
	} {
		p := &Publisher{ledger: newLedger(), slots: make(chan struct{}, 1), queue: make(chan *outgoing, 1)}
		o := newOutgoing("", "orders", &amqp.Publishing{})
		need(t, p.start(t.Context(), o))
		<-p.queue // the writer has it
		if tc.meanwhile(p, o); name != "judged" || p.ledger.putBack(o) {
			p.drop(o, ErrConnectionLost)
		}
		if !errors.Is(o.err, tc.want) || len(p.slots) > 0 {
			t.Errorf("%s: %v, %d slots taken; want %v and none", name, o.err, len(p.slots), tc.want)
		}
	}
}
