package ops

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
)

// Reset forgets the failed attempts of one message.
type Reset struct {
	ID             string `json:"id"`
	Generations    int    `json:"generations"`
	FailedAttempts int    `json:"failed_attempts"`
	// generations with a dead letter that was not replayed or dropped
	DeadLettered int  `json:"dead_lettered,omitempty"`
	Done         bool `json:"reset"`

	queue    string
	messages []counter.Message
	why      counter.Note
}

func planReset(ctx context.Context, q *Queue, a Ask) (Plan, error) {
	all, err := q.generations(ctx, a.ID)
	if err != nil {
		return nil, err
	}
	reset := &Reset{ID: a.ID, queue: q.Name, why: a.Note}
	for _, r := range all {
		if r.Counted() == 0 && r.State == counter.StateLive && r.OpenToken == "" && !r.Suspect && r.OwnLimit == 0 {
			continue // it has nothing that a reset would forget
		}
		reset.Generations++
		reset.FailedAttempts += r.Counted()
		if r.State == counter.StateDeadLetter && r.Removed.IsZero() {
			reset.DeadLettered++
		}
		reset.messages = append(reset.messages, r.Message)
	}
	if reset.Generations == 0 {
		return nil, q.None("nothing is counted of message %q", a.ID)
	}
	return reset, nil
}

// Question asks before anything is forgotten.
func (r *Reset) Question(plans int) string {
	return fmt.Sprintf("Forget the counts of %s of queue %s?", printable.Plural(plans, "message"),
		printable.Name(r.queue))
}

// Do makes the records of all generations clean. A record that expired meanwhile is.
func (r *Reset) Do(ctx context.Context, q *Queue) (err error) {
	for _, m := range r.messages {
		if err = q.Store.Reset(ctx, m, r.why); err != nil && !errors.Is(err, counter.ErrNoRecord) {
			break
		}
		err = nil
	}
	r.Done = err == nil
	return q.audited(ctx, VerbReset, r.ID, r.why, 1, err)
}

// Text says how many failed attempts are forgotten, and that a dead-lettered message stays dead-lettered.
func (r *Reset) Text() string {
	done := "would be forgotten"
	if r.Done {
		done = "forgotten"
	}
	text := fmt.Sprintf("%s: %s (%s, %s)", printable.Name(r.ID), done, printable.Plural(r.FailedAttempts,
		"failed attempt"),
		printable.Plural(r.Generations, "generation"))
	if r.DeadLettered > 0 {
		text += "; it is dead-lettered: that stays so, and only a replay gives it new attempts"
	}
	return text
}
