package counter

import "github.com/strikesmq/strikes/counter/rules"

// wrongHold returns the rule that a step broke about a message that may hold its queue, or "".
func (d *taken) wrongHold() string {
	holds := d.before.State == StateHeld
	switch {
	case d.reply.Code == rules.ReplyHeld && !d.HoldsQueue:
		return "a message holds its queue for a consumer that does not ask for it"
	case d.reply.Code == rules.ReplyHeld && d.after.tombstones.Count > d.before.tombstones.Count:
		return "a message that holds its queue got a tombstone"
	case d.reply.Code == rules.ReplyHeld && d.after.State == StateLive &&
		d.before.Tokens.Of(d.Token) != rules.KindNotCounted:
		return "a message that holds its queue gets another attempt"
	case d.HoldsQueue && d.reply.Code == rules.ReplyExhausted && d.before.State != StateSkip &&
		d.before.State != StateDeadLetter:
		return "a message was dead-lettered instead of holding its queue"
	case d.reply.Code == rules.ReplyRun && holds && d.step == "start" && d.before.Tokens.Of(d.Token) == 0 &&
		d.before.OpenToken != d.Token:
		return "a message that holds its queue may run"
	case d.after.State == StateHeld && (d.reply.Code == rules.ReplyLimited || d.reply.Code == rules.ReplySkipped ||
		d.reply.Code == rules.ReplyReset):
		return "a message that was decided about still holds its queue"
	}
	return ""
}
