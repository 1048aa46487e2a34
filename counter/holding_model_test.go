package counter

import (
	"context"
	"errors"

	"pgregory.net/rapid"

	"github.com/strikesmq/strikes/counter/rules"
)

// setPause has an operator pause or resume the queue.
func (w *world) setPause(t *rapid.T) {
	pauses, note := rapid.Bool().Draw(t, "pauses"), notes.Draw(t, "note")
	ctx, vhost, queue := context.Background(), w.messages[0].VHost, w.messages[0].Queue
	var refused []bool
	for _, s := range w.stores {
		set, already := s.Resume, ErrNotPaused
		if pauses {
			set, already = s.Pause, ErrPaused
		}
		err := set(ctx, vhost, queue, note)
		if err != nil && !errors.Is(err, already) {
			t.Fatalf("%s: %v", s.name, err)
		}
		refused = append(refused, err != nil)
		w.same(t, s.name+": refused", refused[0], err != nil)
	}
}

func (d *taken) lookAtPause(t *rapid.T, s store) {
	t.Helper()
	var err error
	d.pause, err = s.Paused(context.Background(), d.VHost, d.Queue)
	needOf(t, s.name, err)
}

// wrongHold returns the rule that a step broke about a queue that a message may hold, or "".
func (d *taken) wrongHold() string {
	holds := d.pause != nil && d.pause.Holding != nil && d.pause.Holding.Message == d.Message
	live := d.after.State == StateLive
	switch {
	case d.reply.Code == ReplyHeld && !d.HoldsQueue:
		return "a message holds its queue for a consumer that does not ask for it"
	case d.reply.Code == ReplyHeld && d.after.tombstones.Count > d.before.tombstones.Count:
		return "a message that holds its queue got a tombstone"
	case d.reply.Code == ReplyHeld && live && d.before.Tokens.Of(d.Token) != KindNotCounted &&
		!holds:
		return "the queue of a message that holds it is not paused"
	case d.HoldsQueue && d.reply.Code == ReplyExhausted && d.before.State != StateSkip &&
		d.before.State != StateDeadLetter:
		return "a message was dead-lettered instead of holding its queue"
	case d.reply.Code == ReplyRun && d.HoldsQueue && d.step == "start" && holds && live &&
		d.before.Tokens.Of(d.Token) == 0 && d.before.OpenToken != d.Token && d.after.Counted() > 0:
		return "a message that holds its queue may run"
	case holds && (d.reply.Code == rules.ReplyLimited || d.reply.Code == rules.ReplySkipped ||
		d.reply.Code == rules.ReplyReset):
		return "a message that was decided about still holds its queue"
	}
	return ""
}
