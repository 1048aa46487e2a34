package consumer

import (
	"context"
	"sync"
	"sync/atomic"
)

// simProc is one process of consumers. After its death nothing that its goroutines do has an effect.
type simProc struct {
	world     *simWorld
	id        int
	dead      atomic.Bool
	stopping  bool
	isolation *isolation
	ctx       context.Context //nolint:containedctx // stands for the life of a process
	cancel    context.CancelFunc
	sessions  []*simSession
	serving   sync.WaitGroup
	late      *late
	leaving   bool // its sessions have ended
	exited    atomic.Bool
}

func (w *simWorld) start() {
	p := &simProc{world: w, id: len(w.procs) + 1, isolation: newIsolation(), late: newLate()}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	w.procs = append(w.procs, p)
	w.note(simEvent{kind: "start", proc: p.id})
}

func (w *simWorld) stop(p *simProc) {
	p.stopping = true
	w.note(simEvent{kind: "stop", proc: p.id})
	p.cancel()
}

// kill ends a process where it stands. The token is that of the attempt whose handler does it, empty if none does.
func (w *simWorld) kill(p *simProc, why, token string) {
	w.note(simEvent{kind: "kill", proc: p.id, what: why, token: token})
	w.bury(p)
}

func (w *simWorld) bury(p *simProc) {
	p.dead.Store(true)
	for _, op := range w.waiting() {
		if op.proc == p && w.unpark(op) {
			if op.killed != nil {
				op.killed()
			}
			op.drop()
			close(op.done)
		}
	}
	for _, s := range p.sessions {
		w.broker.release(s)
		s.cut = true
		s.observe()
	}
	p.cancel()
	p.leave()
}

// leave gives late steps their last try, as Run does before it returns.
func (p *simProc) leave() {
	if !p.leaving {
		p.leaving = true
		go func() {
			p.serving.Wait()
			p.late.close()
			p.exited.Store(true)
		}()
	}
}
