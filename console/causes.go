package console

import (
	"context"
	"sync"
	"time"

	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/ops"
)

const (
	// causeBudget is how long the reasons of one queue are read for the first page, causesFor how long those of all,
	// and causesTogether of how many at the same time.
	causeBudget    = 30 * time.Millisecond
	causesFor      = 2 * time.Second
	causesTogether = 4
	// causeAge is how old the reason of a queue may be while its dead letters change.
	causeAge = 30 * time.Second
)

// cause is the commonest reason of the dead letters of a queue.
type cause struct {
	Group *ops.Group
	Of    int  // dead letters that were read
	Part  bool // they are not all
	dead  int64
	at    time.Time
}

// causes keeps the commonest reason of each queue.
type causes struct {
	mu      sync.Mutex
	byQueue map[string]cause
	busy    bool
}

func newCauses() *causes { return &causes{byQueue: map[string]cause{}} }

func (k *causes) of(queue string) *cause {
	k.mu.Lock()
	defer k.mu.Unlock()
	if have, ok := k.byQueue[queue]; ok && have.Group != nil {
		return &have
	}
	return nil
}

// old returns the first queues whose reason is not known, or may have changed. It forgets queues without dead letters.
func (k *causes) old(all []ops.Summary) (names []string, dead map[string]int64) {
	k.mu.Lock()
	defer k.mu.Unlock()
	dead = map[string]int64{}
	if k.busy {
		return nil, dead
	}
	for _, s := range all {
		if s.Dead.Still > 0 {
			dead[s.Queue] = s.Dead.Still
		}
		if have, known := k.byQueue[s.Queue]; dead[s.Queue] > 0 && len(names) < queuesPerPage &&
			(!known || have.dead != s.Dead.Still && time.Since(have.at) > causeAge) {
			names = append(names, s.Queue)
		}
	}
	for queue := range k.byQueue {
		if dead[queue] == 0 {
			delete(k.byQueue, queue)
		}
	}
	k.busy = len(names) > 0
	return names, dead
}

// findCauses reads why messages died in the queues of an overview, in the background.
func (c *Console) findCauses(all []ops.Summary) {
	names, dead := c.causes.old(all)
	if len(names) == 0 {
		return
	}
	c.running.Go(func() {
		_ = c.guarded(func() { c.readCauses(names, dead) })
		c.causes.mu.Lock()
		defer c.causes.mu.Unlock()
		c.causes.busy = false
	})
}

func (c *Console) readCauses(names []string, dead map[string]int64) {
	ctx, cancel := context.WithTimeout(c.base, causesFor)
	defer cancel()
	var reading panics.Group
	reading.SetLimit(causesTogether)
	for _, name := range names {
		reading.Go(func() error {
			found, err := c.records(name).Groups(ctx, filter{}.Filter, causeBudget)
			if err != nil { // the next overview tries again
				return nil //nolint:nilerr // the page shows the queue without it
			}
			of := cause{Of: found.Count, Part: found.Partial, dead: dead[name], at: time.Now()}
			if len(found.Groups) > 0 && found.Groups[0].Reason != "" {
				of.Group = found.Groups[0]
			}
			c.causes.mu.Lock()
			defer c.causes.mu.Unlock()
			c.causes.byQueue[name] = of
			return nil
		})
	}
	_ = reading.Wait()
}
