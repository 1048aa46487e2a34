package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/records"
)

// carryOut makes a change and says what it changed.
func (c *Console) carryOut(ctx context.Context, q *records.Queue, ch change) (string, error) {
	switch ch.Verb {
	case VerbReset:
		return reset(ctx, q, ch)
	case VerbLimit:
		return c.limit(ctx, q, ch)
	case VerbSkip:
		return skip(ctx, q, ch)
	case VerbPause:
		return pause(ctx, q, ch)
	default:
		return "", forbiddenError{ch.Verb}
	}
}

// limitError refuses attempts before which the broker would dead-letter the message by itself.
type limitError struct{ finding inspect.Finding }

func (e limitError) Error() string {
	return fmt.Sprintf("%s; %s. %s", e.finding.Seen, e.finding.Impact, e.finding.Fix)
}

func (c *Console) checkDeliveryLimit(ctx context.Context, ch change, retries int) error {
	if ch.Anyway {
		return nil
	}
	found, err := c.broker.DeliveryLimit(ctx, inspect.Need{Queue: ch.Queue, MaxRetries: retries})
	if err != nil {
		return err
	}
	for _, f := range found {
		if f.Severity == inspect.Error {
			return limitError{f}
		}
	}
	return nil
}

func reset(ctx context.Context, q *records.Queue, ch change) (string, error) {
	plan, _, err := q.PlanReset(ctx, []string{ch.ID})
	if err != nil {
		return "", err
	}
	if len(plan) == 0 {
		return fmt.Sprintf("No failed attempt of %s was counted any more, so nothing changed.", shown(ch.ID)), nil
	}
	if err := q.Reset(ctx, &plan[0], ch.note); err != nil {
		return "", err
	}
	text := fmt.Sprintf("%s of %s forgotten.", plural(plan[0].FailedAttempts, "failed attempt"), shown(ch.ID))
	if plan[0].DeadLettered > 0 {
		text += " Its dead letter stays in the dead-letter queue until it is replayed or dropped."
	}
	return text, nil
}

func (c *Console) limit(ctx context.Context, q *records.Queue, ch change) (string, error) {
	plan, err := c.planLimit(ctx, q, ch)
	if ch.Undo && errors.Is(err, records.ErrNone) {
		return "No limit was set any more, so nothing changed.", nil
	}
	if err == nil {
		err = q.ChangeLimit(ctx, &plan)
	}
	if err != nil {
		return "", err
	}
	text := fmt.Sprintf("The limit of %s is set to %s", shown(cmp.Or(ch.ID, ch.Queue)), plan.Text())
	if ch.Undo {
		text = fmt.Sprintf("The limit of %s is cleared; its consumers use their own", shown(cmp.Or(ch.ID, ch.Queue)))
	}
	if n := plan.DeadLetters; n > 0 {
		text += fmt.Sprintf("; %s failed that often already, and will be dead-lettered at the next step",
			plural(n, "message"))
	}
	return text + ".", nil
}

func (c *Console) planLimit(ctx context.Context, q *records.Queue, ch change) (records.Limit, error) {
	switch {
	case ch.Undo && ch.ID != "":
		return q.PlanOwnLimit(ctx, ch.ID, 0, ch.note)
	case ch.Undo:
		return q.PlanClear(ctx, ch.note)
	}
	if err := c.checkDeliveryLimit(ctx, ch, ch.number); err != nil {
		return records.Limit{}, err
	}
	if ch.ID != "" {
		return q.PlanOwnLimit(ctx, ch.ID, ch.number+1, ch.note)
	}
	return q.PlanLimit(ctx, counter.Override{MaxRetries: &ch.number, Note: ch.note})
}

func skip(ctx context.Context, q *records.Queue, ch change) (string, error) {
	plan, err := q.PlanSkip(ctx, ch.ID, ch.note)
	if err != nil {
		return "", err
	}
	if err := q.Skip(ctx, &plan); err != nil {
		return "", err
	}
	switch {
	case plan.Before:
		return fmt.Sprintf("%s was already skipped%s; nothing changed.", shown(ch.ID), noteText(plan.Note)), nil
	case plan.Running:
		return fmt.Sprintf("The last attempt of %s has not ended. It is dead-lettered if that attempt fails, or when a "+
			"consumer receives it again.", shown(ch.ID)), nil
	case !plan.Due.IsZero():
		return fmt.Sprintf("%s is dead-lettered when it returns from a delay queue: %s.", shown(ch.ID),
			instant(plan.Due)), nil
	}
	return fmt.Sprintf("%s is dead-lettered at its next step.", shown(ch.ID)), nil
}

func pause(ctx context.Context, q *records.Queue, ch change) (string, error) {
	plan := q.PlanPause
	if ch.Undo {
		plan = q.PlanResume
	}
	p, err := plan(ctx, ch.note)
	if errors.Is(err, records.ErrNone) {
		return "It was not paused any more, so nothing changed.", nil
	}
	if err == nil {
		err = q.ChangePause(ctx, &p)
	}
	switch {
	case err != nil:
		return "", err
	case p.Before && ch.Undo:
		return "It was not paused any more, so nothing changed.", nil
	case p.Before:
		return "It was paused already" + noteText(p.Note) + "; nothing changed.", nil
	case ch.Undo:
		return fmt.Sprintf("%s is resumed; its consumers go on within two seconds.", shown(ch.Queue)), nil
	}
	return fmt.Sprintf("%s is paused; its consumers stop within two seconds, and running handlers finish.",
		shown(ch.Queue)), nil
}
