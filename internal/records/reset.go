package records

import (
	"context"
	"errors"

	"github.com/strikesmq/strikes/counter"
)

// Reset forgets the failed attempts of one message.
type Reset struct {
	ID             string `json:"id"`
	Generations    int    `json:"generations"`
	FailedAttempts int    `json:"failed_attempts"`
	// generations with a dead letter that was not replayed or dropped
	DeadLettered int  `json:"dead_lettered,omitempty"`
	Done         bool `json:"reset"`

	messages []counter.Message
}

// PlanReset finds what a reset would forget, and the ids of which nothing is
// counted.
func (q *Queue) PlanReset(ctx context.Context, ids []string) (plan []Reset, unknown []string, err error) {
	for _, id := range ids {
		records, err := q.generations(ctx, id)
		if err != nil {
			return nil, nil, err
		}
		if r := resetOf(id, records); r.Generations > 0 {
			plan = append(plan, r)
		} else {
			unknown = append(unknown, id)
		}
	}
	return plan, unknown, nil
}

func resetOf(id string, records []counter.Record) Reset {
	reset := Reset{ID: id}
	for _, r := range records {
		if clean(r) {
			continue
		}
		reset.Generations++
		reset.FailedAttempts += r.Counted()
		if r.State == counter.StateDeadLetter && r.Removed.IsZero() {
			reset.DeadLettered++
		}
		reset.messages = append(reset.messages, r.Message)
	}
	return reset
}

// clean reports whether a record has nothing that a reset would forget.
func clean(r counter.Record) bool {
	return r.Counted() == 0 && r.State == counter.StateLive && r.OpenToken == "" && !r.Suspect && r.OwnLimit == 0
}

// Reset makes the records of all generations clean. A record that expired
// meanwhile is.
func (q *Queue) Reset(ctx context.Context, r *Reset, why counter.Note) error {
	err := q.resetAll(ctx, r.messages, why)
	q.Audit(ctx, entryOf(VerbReset, r.ID, why, 1), err)
	r.Done = err == nil
	return err
}

func (q *Queue) resetAll(ctx context.Context, generations []counter.Message, why counter.Note) error {
	for _, m := range generations {
		if err := q.Store.Reset(ctx, m, why); err != nil && !errors.Is(err, counter.ErrNoRecord) {
			return err
		}
	}
	return nil
}
