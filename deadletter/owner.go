package deadletter

import (
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// clockSkew is how far the clocks of store and broker may differ if several messages used one record.
const clockSkew = time.Second

// recordKey identifies a record, which several dead letters may name.
type recordKey struct{ queue, id, generation string }

// own leaves a record only to the dead letter whose death it describes. If an id is published again, during or after
// the death of its first message, both are counted in the record of the first.
func own(messages []*Message) {
	owners := map[recordKey]*Message{}
	for _, m := range messages {
		if m.Record == nil || m.Record.State != counter.StateDeadLetter {
			continue
		}
		if diedBefore(m.Origin, *m.Record) {
			m.disown()
			continue
		}
		key := recordKey{m.Queue, m.ID, m.diedIn}
		switch first := owners[key]; {
		case first == nil:
			owners[key] = m
		case nearer(m.Origin, first.Origin, *m.Record):
			first.disown()
			owners[key] = m
		default:
			m.disown()
		}
	}
}

func (m *Message) disown() { m.Record, m.Shared = nil, true }

// reused reports whether an earlier message may have used the record, whose failed attempts are then not counted.
func reused(r counter.Record) bool {
	return slices.ContainsFunc(r.Tokens, func(t counter.Token) bool { return t.Kind == counter.KindNotCounted })
}

// diedBefore reports whether a message died before the last attempt of the record failed: a later message owns the
// record. x-death has whole seconds, and RabbitMQ 3.10 keeps the time of the first death when it counts several.
func diedBefore(died Death, r counter.Record) bool {
	return reused(r) && died.Count <= 1 && died.Time.Add(time.Second+clockSkew).Before(r.LastTime)
}

// nearer reports whether the later of two dead letters fits a record better.
func nearer(later, earlier Death, r counter.Record) bool {
	a, b := later.Time.Sub(r.LastTime).Abs(), earlier.Time.Sub(r.LastTime).Abs()
	return a < b || a == b && reused(r)
}
