package console

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/records"
)

// facts say what a change is about to change.
func (c *Console) facts(ctx context.Context, ch change) ([]string, error) {
	q := c.records(ch.Queue)
	switch ch.Verb {
	case VerbReset:
		plan, _, err := q.PlanReset(ctx, []string{ch.ID})
		if err != nil {
			return nil, err
		}
		if len(plan) == 0 {
			return []string{"No failed attempt of this message is counted now."}, nil
		}
		facts := []string{fmt.Sprintf("%s in %s would be forgotten.", plural(plan[0].FailedAttempts, "failed attempt"),
			plural(plan[0].Generations, "generation"))}
		if plan[0].DeadLettered > 0 {
			facts = append(facts, "Its dead letter stays in the dead-letter queue; a replay handles it again.")
		}
		return facts, nil
	case VerbLimit:
		if ch.ID != "" {
			return ownLimitFacts(ctx, q, ch.ID)
		}
		l, err := q.Limit(ctx)
		if errors.Is(err, records.ErrNone) {
			return []string{"No limit is set: the consumers use their own."}, nil
		}
		if err != nil && !errors.Is(err, counter.ErrOverride) && !errors.Is(err, counter.ErrForeign) {
			return nil, err
		}
		if err != nil {
			return []string{"Consumers ignore what is set now: " + shown(err.Error())}, nil
		}
		return []string{fmt.Sprintf("Now: %s%s", l.Text(), noteText(l.Note))}, nil
	case VerbSkip:
		plan, err := q.PlanSkip(ctx, ch.ID, counter.Note{})
		if err != nil {
			return nil, err
		}
		if !plan.Due.IsZero() {
			return []string{plural(plan.FailedAttempts, "failed attempt") + " so far.",
				"It was moved to a delay queue, and is dead-lettered when it returns: " + instant(plan.Due) + "."}, nil
		}
		return []string{plural(plan.FailedAttempts, "failed attempt") + " so far.", "The consumer that holds it " +
			"dead-letters it now, or the next one that receives it. A running attempt finishes first."}, nil
	default:
		return c.pauseFacts(ctx, ch)
	}
}

func ownLimitFacts(ctx context.Context, q *records.Queue, id string) ([]string, error) {
	plan, err := q.PlanOwnLimit(ctx, id, 1, counter.Note{})
	if err != nil {
		return nil, err
	}
	facts := []string{plural(plan.Failed(), "failed attempt") + " so far."}
	if now, err := q.OwnLimit(ctx, id); err == nil {
		facts = append(facts, "It has a limit of its own: "+now.Text()+".")
	}
	return append(facts, "A limit of its own replaces every other one for this message, at its next step on every "+
		"consumer."), nil
}

func (c *Console) pauseFacts(ctx context.Context, ch change) ([]string, error) {
	note, err := c.store.Paused(ctx, c.opts.VHost, ch.Queue)
	if err != nil {
		return nil, err
	}
	consuming, err := c.store.Consumers(ctx, c.opts.VHost, ch.Queue)
	if err != nil {
		return nil, err
	}
	facts := []string{plural(len(consuming), "process") + " consumed it within the last minute."}
	if note != nil {
		return append(facts, "It is paused"+noteText(records.NoteOf(*note))), nil
	}
	return append(facts, "Paused consumers take no messages and count nothing, until an operator resumes the queue."), nil
}

// noteText says who changed something, when and why.
func noteText(n records.Note) string {
	text := ""
	if !n.At.IsZero() {
		text += ", since " + instant(n.At)
	}
	if n.By != "" {
		text += ", by " + shown(n.By)
	}
	if n.Reason != "" {
		text += ": " + brief(n.Reason)
	}
	return text
}
