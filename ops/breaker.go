package ops

import (
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
)

// Breaker is the breaker of a queue in which no message succeeds, or in which an operator wants failures counted.
type Breaker struct {
	Since    time.Time `json:"since,omitzero"`    // since when no message has succeeded; zero: it is closed
	Open     bool      `json:"open"`              // only probes begin; false: the queue is in doubt
	Failed   int       `json:"failed,omitempty"`  // messages that have failed, with no success since
	Alike    int       `json:"alike,omitempty"`   // how many of them, up to the last, have the Reason
	Reason   string    `json:"reason,omitempty"`  // of the last one
	Next     time.Time `json:"next,omitzero"`     // when a probe may begin
	Counting time.Time `json:"counting,omitzero"` // until when an operator wants every failure counted
}

// breakerOf returns the part of a breaker that operators see; nil: it is closed, and no operator has a wish.
func breakerOf(b counter.Breaker, now time.Time) *Breaker {
	out := &Breaker{Since: b.Doubt, Open: !b.Open.IsZero(), Next: b.Next}
	if !b.Doubt.IsZero() {
		out.Failed, out.Alike, out.Reason = len(b.Streak), min(b.Alike, len(b.Streak)), b.Reason
	}
	if b.Count.After(now) {
		out.Counting = b.Count
	}
	if out.Since.IsZero() && out.Counting.IsZero() {
		return nil
	}
	return out
}

// Stops reports whether the breaker keeps failures from being counted.
func (b *Breaker) Stops() bool { return b != nil && !b.Since.IsZero() }

// Text says since when no message succeeds, and when the next probe begins. It is escaped.
func (b *Breaker) Text(now time.Time) string {
	if !b.Stops() {
		return fmt.Sprintf("every failure is counted until %s, because an operator wants it",
			b.Counting.UTC().Format(time.RFC3339))
	}
	text := fmt.Sprintf("no progress since %s (%s): %s failed, none succeeded. Nothing is counted.",
		b.Since.UTC().Format(time.RFC3339), now.Sub(b.Since).Round(time.Second),
		printable.Plural(b.Failed, "message"))
	switch wait := b.Next.Sub(now).Round(time.Second); {
	case !b.Open:
	case wait > -time.Minute:
		text += fmt.Sprintf(" Next probe in %s.", max(wait, 0))
	default:
		text += fmt.Sprintf(" A probe has been due for %s: no consumer with a breaker asks for one; the queue is empty or "+
			"paused, or none runs.", -wait)
	}
	if b.Reason != "" {
		text += fmt.Sprintf(" %d of %d: %s", b.Alike, b.Failed, printable.Line(b.Reason, 200))
	}
	return text
}
