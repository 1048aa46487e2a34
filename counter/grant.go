package counter

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/internal/setting"
)

// ErrNoRecord is wrapped by Grant and Pardon if nothing is kept of the message in that life: nothing is done. Get tells
// which lives there are.
var ErrNoRecord = errors.New("nothing is counted of this life of the message")

// ErrOver is wrapped by Grant if the message was dead-lettered or handled, so that no try of that life is to come: nothing is
// done. Pardon lifts a tombstone; a message that is in the dead-letter queue already is replayed instead.
var ErrOver = errors.New("this life of the message is over: it was dead-lettered or handled")

// MaxTries is the largest number of tries that all grants together give one message. With them it gets 1001 attempts at most.
const MaxGrant = MaxOverride

// Grant is a number of tries that an operator gives one message beyond its limit.
type Grant struct {
	Attempts int // 1 to MaxTries where a Grant is given
	Note
}

// byOperator is the token of what no attempt does.
const byOperator = "operator"

// Grant gives one life of a message more tries, in force at its next step on every consumer. They add to earlier grants, up to
// MaxTries, and to the limit in force, up to 1001 attempts. An error other than ErrNoRecord and ErrOver leaves undecided whether
// they were added: read the record before granting again.
func (a *Admin) Grant(ctx context.Context, m Message, g Grant) error {
	if err := g.validate(); err != nil {
		return fmt.Errorf("counter: grant, queue %q: %w", m.Queue, err)
	}
	n := g.kept()
	answer, err := a.step(ctx, stepGrant, Attempt{Message: m, Token: byOperator}, 0, g.Attempts, n.By, n.Why)
	if err != nil {
		return err
	}
	return refusal("grant", m, answer.Verdict)
}

// Pardon makes one life of a message clean: no charge, tombstone, wait or grant is left, and it is no suspect. What remains
// is the note, the fence, and which attempts are known, so that a late step of one that was charged charges nothing now.
// A message that is in the dead-letter queue stays there. An attempt that runs meanwhile is not stopped; if it fails, that is
// the first charge. An error other than ErrNoRecord leaves undecided whether it was done; it may be repeated.
func (a *Admin) Reset(ctx context.Context, m Message, n Note) error {
	if err := n.validate(); err != nil {
		return fmt.Errorf("counter: reset, queue %q: %w", m.Queue, err)
	}
	n = n.kept()
	answer, err := a.step(ctx, stepReset, Attempt{Message: m, Token: byOperator}, 0, n.By, n.Why)
	if err != nil {
		return err
	}
	return refusal("reset", m, answer.Verdict)
}

func (g Grant) validate() error {
	if g.Attempts < 1 || g.Attempts > MaxGrant {
		return setting.New("Tries", g.Attempts, fmt.Sprintf("1 to %d", MaxGrant))
	}
	return g.Note.validate()
}

// refusal is the error for what a script did not do.
func refusal(verb string, m Message, v Verdict) error {
	switch v {
	case verdictNone:
		return fmt.Errorf("counter: %s, queue %q: %w", verb, m.Queue, ErrNoRecord)
	case verdictOver:
		return fmt.Errorf("counter: %s, queue %q: %w", verb, m.Queue, ErrOver)
	default:
		return nil
	}
}
