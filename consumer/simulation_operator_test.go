package consumer

import (
	"context"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/audit"
)

// operate has an operator pause or resume the queue, or skip a message, if the store is there.
func (w *simWorld) operate() {
	w.toDo--
	if w.store.down {
		return
	}
	switch w.rng.IntN(4) {
	case 0, 1:
		if w.onAll(func(s *counter.Memory) error { return s.Pause(context.Background(), "/", "orders", simWhy) }) {
			w.note(audit.Event{Kind: audit.PauseBegan})
			if w.chance(2) { // else the queue is empty before a process reads of it
				w.pass(3*time.Second, "begin", "control")
			}
		}
	case 2:
		w.resume()
	case 3:
		m := counter.Message{VHost: "/", Queue: "orders", ID: w.plan.messages[w.rng.IntN(len(w.plan.messages))].id}
		if m.ID != "" && w.onAll(func(s *counter.Memory) error { return errOf(s.Skip(context.Background(), m, simWhy)) }) {
			w.note(audit.Event{Kind: audit.Skipped, ID: m.ID})
		}
	}
}

var simWhy = counter.Note{By: "sim", Why: "an operator wants it"}

func (w *simWorld) resume() {
	if w.onAll(func(s *counter.Memory) error {
		return s.Resume(context.Background(), "/", "orders", simWhy)
	}) {
		w.note(audit.Event{Kind: audit.PauseEnded})
	}
}

// onAll reports whether the first did it.
func (w *simWorld) onAll(do func(*counter.Memory) error) (done bool) {
	for i, s := range w.store.memories() {
		err := do(s)
		done = done || i == 0 && err == nil
	}
	return done
}

// watch starts the control of a process, in schedules with operators.
func (p *simProc) watch() {
	if p.world.plan.operations > 0 || p.world.plan.whole {
		p.control = controlOn(sessionOn(nil, Consumer{}), &simControl{proc: p})
		p.control.Start()
	}
}

func (p *simProc) unwatch() {
	if p.control != nil {
		p.control.Stop()
	}
}

// mayConsume reports whether a Consumer would begin a session: see awaitResume.
func (p *simProc) mayConsume() bool {
	if p.control == nil {
		return true
	}
	select {
	case <-p.control.First():
	default:
		return false
	}
	reply, _ := p.control.Current()
	return !reply.Paused
}

// simControl is the store as the control of a process sees it. Requests and replies may be lost, and requests doubled.
type simControl struct {
	proc  *simProc
	reads int64
}

func (l *simControl) Control(ctx context.Context, vhost, queue string, r counter.Reader) (counter.Control, error) {
	l.reads++
	var reply counter.Control
	err := errSimDown
	op := &simOp{proc: l.proc, kind: "control", number: l.reads}
	op.act = func() bool { reply, err = l.proc.world.readControl(l.proc, vhost, queue, r); return true }
	op.drop = func() {}
	w := l.proc.world
	w.park(op)
	select {
	case <-op.done:
		return reply, err
	case <-ctx.Done():
	}
	time.Sleep(time.Duration(l.proc.id)) // no two at the same moment
	if w.unpark(op) {
		w.mu.Lock()
		defer w.mu.Unlock()
		w.note(audit.Event{Kind: audit.Unheard, Process: l.proc.id})
		return counter.Control{}, errSimDown
	}
	<-op.done
	return reply, err
}

// readControl serves a read as simStore.serve does a step. No request is late, because that would change only the
// reply that the process gets.
func (w *simWorld) readControl(p *simProc, vhost, queue string, r counter.Reader) (reply counter.Control, err error) {
	fate := 0
	if w.store.sour > 0 && w.rng.IntN(100) < w.store.sour {
		fate = 1 + w.rng.IntN(3)
	}
	if !w.store.down && fate != 1 {
		for i, s := range w.store.memories() {
			got, failed := s.Control(context.Background(), vhost, queue, r)
			if fate == 3 { // it arrives twice
				got, failed = s.Control(context.Background(), vhost, queue, r)
			}
			if i == 0 {
				reply, err = got, failed
			}
		}
	}
	if w.store.down || fate == 1 || fate == 2 { // the store is down, the request is lost, or the reply is
		w.note(audit.Event{Kind: audit.Unheard, Process: p.id})
		return counter.Control{}, errSimDown
	}
	w.note(audit.Event{Kind: audit.Heard, Process: p.id, Paused: reply.Paused})
	return reply, err
}
