package counter

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/internal/setting"
)

// ErrNoRecord is wrapped by Grant, Reset and Skip if the generation has no record: nothing is done. Get lists the generations.
var ErrNoRecord = errors.New("this generation of the message has no record")

// ErrOver is wrapped by Grant and Skip if the message was dead-lettered or handled, and by Grant if it was skipped, so that this
// generation gets no more attempts: nothing is done. Reset lifts a tombstone and a skip. Replay a message that is in the dead-letter queue already.
var ErrOver = errors.New("this generation of the message is over: it was dead-lettered, skipped or handled")

// MaxGrant is the largest number of attempts that all grants together give one message. With them it gets at most 1001.
const MaxGrant = MaxOverride

// Grant is a number of attempts that an operator gives one message beyond its limit.
type Grant struct {
	Attempts int // 1 to MaxGrant where a Grant is given
	Note
}

// byOperator is the token of a step that belongs to no attempt.
const byOperator = "operator"

// Grant gives one generation of a message more attempts, in force at its next step on every consumer. They add to earlier
// grants, up to MaxGrant, and to the limit in force, up to 1001 attempts. After an error other than ErrNoRecord and ErrOver they
// may or may not be added: read the record before granting again.
func (a *Admin) Grant(ctx context.Context, m Message, g Grant) error {
	if err := g.validate(m); err != nil {
		return err
	}
	n := g.kept()
	reply, err := a.step(ctx, stepGrant, Attempt{Message: m, Token: byOperator}, 0, g.Attempts, n.By, n.Why)
	return refusal("grant", m, reply, err)
}

// Reset clears one generation of a message: its counts, tombstone, wait, suspicion and grant. What remains is the note, the
// fence, and which attempts are known, so that a late step of an attempt that was counted before is not counted now. A message
// in the dead-letter queue stays there. Reset does not stop an open attempt; if that fails, it is the first one counted. After
// an error other than ErrNoRecord it may or may not be done; it is safe to repeat.
func (a *Admin) Reset(ctx context.Context, m Message, n Note) error {
	if err := n.validateReset(m); err != nil {
		return err
	}
	n = n.kept()
	reply, err := a.step(ctx, stepReset, Attempt{Message: m, Token: byOperator}, 0, n.By, n.Why)
	return refusal("reset", m, reply, err)
}

func (g Grant) validate(m Message) error {
	err := g.Note.validate()
	if g.Attempts < 1 || g.Attempts > MaxGrant {
		err = setting.New("Attempts", g.Attempts, fmt.Sprintf("1 to %d", MaxGrant))
	}
	if err != nil {
		return fmt.Errorf("counter: grant, queue %q: %w", m.Queue, err)
	}
	return nil
}

func (n Note) validateReset(m Message) error {
	if err := n.validate(); err != nil {
		return fmt.Errorf("counter: reset, queue %q: %w", m.Queue, err)
	}
	return nil
}

// refusal is the error of a step that failed, or that the script refused.
func refusal(verb string, m Message, reply Reply, err error) error {
	switch {
	case err != nil:
		return err
	case reply.Verdict == verdictNone:
		return fmt.Errorf("counter: %s, queue %q: %w", verb, m.Queue, ErrNoRecord)
	case reply.Verdict == verdictOver:
		return fmt.Errorf("counter: %s, queue %q: %w", verb, m.Queue, ErrOver)
	}
	return nil
}
