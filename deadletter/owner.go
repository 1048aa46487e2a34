package deadletter

import (
	"time"

	"github.com/strikesmq/strikes/counter"
)

// clockSkew is how far the clocks of store and broker may differ if several
// messages used one record.
const clockSkew = time.Second

// claim names a record, which several dead letters may share.
type claim struct{ queue, id, generation string }

// own leaves a record only to the letter whose death it describes. If an id is
// published again, while or after its first message dies, both are counted in the
// record of the first.
func own(letters []*Message) {
	owners := map[claim]*Message{}
	for _, l := range letters {
		if l.Record == nil || l.Record.State != counter.StateDeadLetter {
			continue
		}
		if diedBefore(l.Origin, *l.Record) {
			l.disown()
			continue
		}
		of := claim{l.Origin.Queue, l.ID, l.diedIn}
		switch first := owners[of]; {
		case first == nil:
			owners[of] = l
		case nearer(l.Origin, first.Origin, *l.Record):
			first.disown()
			owners[of] = l
		default:
			l.disown()
		}
	}
}

func (l *Message) disown() { l.Record, l.Shared = nil, true }

// reused reports whether an earlier message may have used the record: it then
// keeps that one's failed attempts as attempts that are not counted.
func reused(r counter.Record) bool {
	for _, kind := range r.Tokens {
		if kind == counter.KindNotCounted {
			return true
		}
	}
	return false
}

// diedBefore reports whether a message was dead before the last attempt of the
// record failed: the record is that of a later message. x-death has whole seconds,
// and RabbitMQ 3.10 keeps the time of the first death where it counts several.
func diedBefore(died Death, r counter.Record) bool {
	return reused(r) && died.Count <= 1 && died.Time.Add(time.Second+clockSkew).Before(r.LastTime)
}

// nearer reports whether the later of two dead letters fits a record better.
func nearer(later, earlier Death, r counter.Record) bool {
	a, b := later.Time.Sub(r.LastTime).Abs(), earlier.Time.Sub(r.LastTime).Abs()
	return a < b || a == b && reused(r)
}
