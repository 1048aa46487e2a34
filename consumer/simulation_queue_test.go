package consumer

import (
	"cmp"
	"context"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/strikesmq/strikes/counter"
)

// newWholePlan is a plan of an ordered queue which an exhausted message holds.
func newWholePlan(rng *rand.Rand) simPlan {
	p := simPlan{
		maxRetries: []int{-1, 1, 2}[rng.IntN(3)], isolation: IsolationSuspects, retry: RetryInPlace, whole: true,
		ordered:   true,
		processes: 1 + rng.IntN(3), consumers: 1 + rng.IntN(4)/3, concurrency: 1, prefetch: 1 + rng.IntN(8),
		faults: rng.IntN(12),
	}
	if rng.IntN(4) == 0 {
		p.retry, p.prefetch = RetryRequeue, 1
	}
	if rng.IntN(3) == 0 {
		p.sour = rng.IntN(40)
	}
	for n := range 3 + rng.IntN(6) {
		m := simMessagePlan{id: fmt.Sprint("o", n), copies: 1, does: simBehaviours[0]}
		if rng.IntN(2) == 0 {
			m.does = laneBehaviours[rng.IntN(len(laneBehaviours))]
		}
		p.messages = append(p.messages, m)
	}
	return p
}

// drop notes a dead letter, which only an operator may have decided on.
func (j *laneJudge) drop(id string) {
	if !j.skipped[id] {
		j.broken = append(j.broken, id+" was dead-lettered although no operator skipped it")
	}
	j.dropped[id] = true
}

// operateQueue has an operator decide about the message that pauses the queue, resume the queue without a decision,
// pause it, or skip a message that is retried. It reports whether the operator did anything.
func (w *simWorld) operateQueue() bool {
	if w.store.down {
		return false
	}
	first := w.store.memories()[0]
	now, _ := first.State(context.Background(), "/", "orders")
	paused := now.Paused
	if paused != nil && paused.Holding != nil && !isHeld(first, paused.Holding.Message) {
		w.judge.broken = append(w.judge.broken, paused.Holding.ID+" pauses the queue, and does not hold it")
	}
	switch n := w.rng.IntN(10); {
	case paused != nil && paused.Holding != nil && (w.calm || n < 6):
		w.decide(paused.Holding.Message)
	case paused != nil && (w.calm || n < 8):
		w.onMemories("resumes", func(m *counter.Memory) error {
			return m.Resume(context.Background(), "/", "orders", simWhy)
		})
	case w.calm:
		return false
	case n == 8:
		w.onMemories("pauses", func(m *counter.Memory) error { return m.Pause(context.Background(), "/", "orders", simWhy) })
	case n == 9:
		w.skipMessage(counter.Message{VHost: "/", Queue: "orders", ID: w.plan.messages[w.rng.IntN(len(w.plan.messages))].id})
	default:
		return false
	}
	return true
}

func isHeld(s *counter.Memory, m counter.Message) bool {
	all, _ := s.Get(context.Background(), m.VHost, m.Queue, m.ID)
	return slices.ContainsFunc(all, func(r counter.Record) bool { return r.Message == m && r.State == counter.StateHeld })
}

// HoldQueue pauses the queue behind a link that loses, delays and repeats.
func (l *simLink) HoldQueue(ctx context.Context, h counter.Holding, n counter.Note) error {
	l.session.world.mu.Lock()
	l.asked++
	number := l.asked
	l.session.world.mu.Unlock()
	return l.lane(ctx, number, "holds the queue for "+h.ID, func(s *counter.Memory, _ bool) (string, error) {
		return "", s.HoldQueue(context.Background(), h, n)
	})
}

func (w *simWorld) decide(m counter.Message) {
	w.judge.releases++
	switch {
	case w.chance(4) || w.runs[m.ID] > 6:
		w.skipMessage(m)
	case w.chance(3):
		w.onMemories("resets "+m.ID, func(s *counter.Memory) error { return s.Reset(context.Background(), m, simWhy) })
	default:
		w.onMemories("raises the limit of "+m.ID, func(s *counter.Memory) error {
			all, err := s.Get(context.Background(), m.VHost, m.Queue, m.ID)
			for _, r := range all {
				if r.Message == m {
					return s.LimitMessage(context.Background(), m, r.Counted()+1+w.runs[m.ID]%2, simWhy)
				}
			}
			return cmp.Or(err, counter.ErrNoRecord)
		})
	}
}

func (w *simWorld) skipMessage(m counter.Message) {
	skip := func(s *counter.Memory) error { return errOf(s.Skip(context.Background(), m, simWhy)) }
	if w.onMemories("skips "+m.ID, skip) {
		w.judge.skipped[m.ID] = true
	}
}

// onMemories has an operator change the store, at times twice. It reports whether the first replica did it.
func (w *simWorld) onMemories(what string, do func(*counter.Memory) error) (done bool) {
	for range 1 + w.rng.IntN(6)/5 {
		done = w.onAll(do) || done
	}
	w.tell("an operator %s: %v", what, done)
	return done
}

// TestSimulationQueue plays schedules in which an exhausted message holds its whole queue: nothing may overtake it,
// whatever happens to processes, connections and the store, and nothing is dead-lettered that no operator skipped.
func TestSimulationQueue(t *testing.T) {
	var decisions, drops, begun int
	n := eachSchedule(t, simKind{stream: 11, plan: newWholePlan, lanes: true}, func(_ uint64, w *simWorld) {
		decisions, drops, begun = decisions+w.judge.releases, drops+len(w.judge.dropped), begun+w.begun()
	})
	t.Logf("%d schedules: %d attempts, %d decisions of operators, %d dead letters", n, begun, decisions, drops)
	if n > 100 && (decisions == 0 || drops == 0) {
		t.Error("no message held its queue")
	}
}
