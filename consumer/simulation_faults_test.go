package consumer

import (
	"fmt"
	"testing/synctest"
	"time"
)

// fault lets one thing go wrong. Faults of a single request to the store are drawn in simStore.
func (w *simWorld) fault() {
	w.faults--
	p, s := w.victim()
	switch w.rng.IntN(27) / 2 {
	case 0, 1:
		if p != nil {
			w.kill(p, "a fault", "")
		}
	case 2:
		if p != nil && !p.stopping {
			w.stop(p)
		}
	case 3, 4, 5:
		if s != nil && !s.cut {
			w.cut(s)
		}
	case 6:
		if s != nil && !s.cut && !s.cancelled && !w.plan.ordered {
			s.cancelled = true
			w.note(simEvent{kind: "cancel", proc: p.id, session: s.id})
			s.cancel <- "sim"
		}
	case 7:
		w.store.away(w)
	case 8:
		w.store.lose(w)
	case 9:
		w.store.stall(w)
	case 10:
		w.sleep(simLong[w.rng.IntN(len(simLong))])
	case 11:
		w.store.broken = 1 + w.rng.IntN(4) // the next few requests go wrong
	case 12:
		w.restart()
	case 13:
		w.store.sour = 10 + w.rng.IntN(60) // percent of the requests go wrong until it is calm
		w.note(simEvent{kind: "sour", what: fmt.Sprint(w.store.sour, "%")})
	}
}

// simLong are pauses of the whole machine, such as a slow store or a stopped clock.
var simLong = []time.Duration{300 * time.Millisecond, 1100 * time.Millisecond, 3 * time.Second, 7 * time.Second, 40 * time.Second}

func (w *simWorld) sleep(d time.Duration) {
	w.note(simEvent{kind: "slow", what: d.String()})
	over := time.NewTimer(d)
	defer over.Stop()
	for {
		synctest.Wait()
		for _, op := range w.waiting() {
			if op.kind == "begin" { // a handler that was called has begun
				w.take(op)
			}
		}
		select {
		case <-w.wake:
		case <-over.C:
			synctest.Wait()
			return
		}
	}
}

// victim draws a process that lives, and one of its sessions.
func (w *simWorld) victim() (*simProc, *simSession) {
	var living []*simProc
	for _, p := range w.procs {
		if !p.dead.Load() {
			living = append(living, p)
		}
	}
	if len(living) == 0 {
		return nil, nil
	}
	p := living[w.rng.IntN(len(living))]
	if len(p.sessions) == 0 {
		return p, nil
	}
	return p, p.sessions[w.rng.IntN(len(p.sessions))]
}

// becalm ends every fault that lasts.
func (w *simWorld) becalm() {
	if w.calm {
		return
	}
	w.calm, w.faults = true, 0
	w.note(simEvent{kind: "calm"})
	w.store.repair(w)
}
