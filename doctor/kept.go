package doctor

import (
	"context"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/shell"
)

const (
	// storeTimeout bounds the questions about one queue.
	storeTimeout = 5 * time.Second
	// maxJudged is how many records of a queue are read: those that were written last.
	maxJudged = 1000
)

// kept judges what the store keeps of a queue. A store that does not reply is not asked about the next queue: that is a
// finding about the store.
func (c *Checkup) kept(ctx context.Context, vhost, queue string) []inspect.Finding {
	if c.Store == nil || c.mute.Load() {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, storeTimeout)
	defer cancel()
	var found []inspect.Finding
	for _, judge := range []func(ctx context.Context, vhost, queue string) ([]inspect.Finding, error){c.paused, c.limits} {
		more, err := judge(ctx, vhost, queue)
		if err != nil {
			c.mute.Store(true)
			return found
		}
		found = append(found, more...)
	}
	return found
}

// paused reports a queue that an operator paused.
func (c *Checkup) paused(ctx context.Context, vhost, queue string) ([]inspect.Finding, error) {
	note, err := c.Store.Paused(ctx, vhost, queue)
	if note == nil || err != nil {
		return nil, err
	}
	return []inspect.Finding{judgePause(*note, queue)}, nil
}

func judgePause(note counter.Note, queue string) inspect.Finding {
	by := ""
	if note.By != "" {
		by = ", by " + firstLine(note.By, 80)
	}
	return inspect.Say("paused", inspect.Vars{
		"at": note.At.Format(time.RFC3339), "by": by, "why": firstLine(note.Why, 200), "queue": shell.Operands(queue),
	})
}

// limits judges whether the consumers of a queue agree on how often they retry. A limit that an operator set is in
// force on all.
func (c *Checkup) limits(ctx context.Context, vhost, queue string) ([]inspect.Finding, error) {
	if set, err := c.Store.Limit(ctx, vhost, queue); set != nil || err != nil {
		return nil, err
	}
	now, err := c.Store.Now(ctx)
	if err != nil {
		return nil, err
	}
	var all []counter.Record
	for r, err := range c.Store.List(ctx, vhost, queue) {
		if err != nil {
			return nil, err
		}
		if all = append(all, r); len(all) == maxJudged {
			break
		}
	}
	return limitsDiffer(queue, Disagreement(slices.Values(all), now)), nil
}

func limitsDiffer(queue string, seen []ConsumerLimit) []inspect.Finding {
	if len(seen) == 0 {
		return nil
	}
	return []inspect.Finding{inspect.Say("limits-differ", inspect.Vars{"limits": LimitsText(seen),
		"queue": shell.Operands(queue)})}
}

// firstLine is the beginning of a text from elsewhere, which may hold control characters.
func firstLine(s string, most int) string {
	line, _, _ := strings.Cut(strings.TrimSpace(s), "\n")
	if runes := []rune(line); len(runes) > most {
		return string(runes[:most]) + "…"
	}
	return line
}
