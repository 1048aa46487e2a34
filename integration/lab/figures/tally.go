package figures

import (
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strikesmq/strikes/consumer"
)

// line is what a consumer process tells, one JSON object each.
type line struct {
	Kind    kind
	At      time.Time
	CPU     time.Duration // used by the process so far
	ID      string        `json:",omitempty"` // began, ended
	OK      bool          `json:",omitempty"` // ended
	Running int           `json:",omitempty"` // signalled: handlers in the middle
	Tally   tally
}

type kind string

const (
	began     kind = "began"     // a run of the handler
	ended     kind = "ended"     // it returned
	report    kind = "report"    // from time to time
	signalled kind = "signalled" // the process has got the signal to stop
	stopped   kind = "stopped"   // Run has returned
	unclean   kind = "unclean"   // told of the process: it could not tell whether its last acks arrived
)

// tally is what a process did so far.
type tally struct {
	Began, Again int // runs; of them, of redelivered messages
	Handled      int // successful runs
	Distinct     int // messages acked
	Settled      int // acked, requeued or dead-lettered
	Held         int // steps that the store did not answer at first
}

// counts makes the tally. It observes the consumer.
type counts struct {
	runs, again, handled, settled, held atomic.Int64

	mu    sync.Mutex
	acked map[string]bool
}

func (c *counts) began(redelivered bool) {
	c.runs.Add(1)
	if redelivered {
		c.again.Add(1)
	}
}

// Observe counts what was settled a delivery.
func (c *counts) Observe(_ context.Context, e consumer.Event) {
	switch e.Outcome {
	case consumer.OutcomeAck:
		c.settled.Add(1)
		c.mu.Lock()
		defer c.mu.Unlock()
		if c.acked == nil {
			c.acked = map[string]bool{}
		}
		c.acked[e.ID] = true
	case consumer.OutcomeRequeue, consumer.OutcomeDeadLetter:
		c.settled.Add(1)
	case consumer.OutcomeHold:
		c.held.Add(1)
	default:
	}
}

func (c *counts) now() tally {
	c.mu.Lock()
	distinct := len(c.acked)
	c.mu.Unlock()
	return tally{
		Began: int(c.runs.Load()), Again: int(c.again.Load()), Handled: int(c.handled.Load()), Distinct: distinct,
		Settled: int(c.settled.Load()), Held: int(c.held.Load()),
	}
}
