package counter

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/setting"
)

// ErrNoRecord is wrapped by Grant, Reset and Skip if the generation has no record: nothing is done. Get lists the generations.
var ErrNoRecord = errors.New("this generation of the message has no record")

// ErrOver is wrapped by Grant and Skip if the message was dead-lettered or handled, and by Grant if it was skipped, so that this
// generation gets no more attempts: nothing is done. Reset lifts a tombstone and a skip. Replay a message that is in the dead-letter queue already.
var ErrOver = errors.New("this generation of the message is over: it was dead-lettered, skipped or handled")

// byOperator is the token of a step that belongs to no attempt.
const byOperator = "operator"

// Grant gives one generation of a message more attempts, in force at its next step on every consumer. They add to earlier
// grants, up to MaxGrant, and to the limit in force, up to 1001 attempts. After an error other than ErrNoRecord and ErrOver they
// may or may not be added: read the record before granting again.
func (a *Admin) Grant(ctx context.Context, m Message, g Grant) error {
	if err := checkGrant(m, g); err != nil {
		return err
	}
	n := keptNote(g.Note)
	reply, err := a.step(ctx, stepGrant, Attempt{Message: m, Token: byOperator}, 0, g.Attempts, n.By, n.Why)
	return refusal("grant", m, reply, err)
}

// Reset clears one generation of a message: its counts, tombstone, wait, suspicion and grant. What remains is the note, the
// fence, and which attempts are known, so that a late step of an attempt that was counted before is not counted now. A message
// in the dead-letter queue stays there. Reset does not stop an open attempt; if that fails, it is the first one counted. After
// an error other than ErrNoRecord it may or may not be done; it is safe to repeat.
func (a *Admin) Reset(ctx context.Context, m Message, n Note) error {
	if err := checkReset(m, n); err != nil {
		return err
	}
	n = keptNote(n)
	reply, err := a.step(ctx, stepReset, Attempt{Message: m, Token: byOperator}, 0, n.By, n.Why)
	return refusal("reset", m, reply, err)
}

func checkGrant(m Message, g Grant) error {
	err := checkNote(g.Note)
	if g.Attempts < 1 || g.Attempts > MaxGrant {
		err = setting.New("Attempts", g.Attempts, fmt.Sprintf("1 to %d", MaxGrant))
	}
	if err != nil {
		return fmt.Errorf("counter: grant, queue %q: %w", m.Queue, err)
	}
	return nil
}

func checkReset(m Message, n Note) error {
	if err := checkNote(n); err != nil {
		return fmt.Errorf("counter: reset, queue %q: %w", m.Queue, err)
	}
	return nil
}

// refusal is the error of a step that failed, or that the script refused.
func refusal(verb string, m Message, reply Reply, err error) error {
	switch {
	case err != nil:
		return err
	case reply.Verdict == rules.VerdictNone:
		return fmt.Errorf("counter: %s, queue %q: %w", verb, m.Queue, ErrNoRecord)
	case reply.Verdict == rules.VerdictOver:
		return fmt.Errorf("counter: %s, queue %q: %w", verb, m.Queue, ErrOver)
	}
	return nil
}
