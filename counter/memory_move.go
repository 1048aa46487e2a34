package counter

import (
	"context"
	"math"
	"time"
)

// Durations of a move, as in scripts/record.lua.
const (
	moveLease = 30 * time.Second // that a consumer has for a move
	movePoll  = 10 * time.Second // until a delivery asks again whether another attempt runs
)

// mixed is Move.Body if different messages have the same id.
const mixed = "x"

// Moved is like Counter.Moved. It fails only on invalid arguments.
func (m *Memory) Moved(ctx context.Context, a Attempt, hop int64) error {
	_, err := m.step(ctx, a, func(e *entry, _ bool, now time.Time) Reply {
		if e.Move.Top > 0 && hop > e.Move.Hop {
			e.confirm(hop)
			a.Holder = e.Holder // stays
			m.save(e, a, now, m.opts.TTL)
		}
		return e.reply(verdictMoved, allowed{}, now)
	})
	return err
}

// moving is what a step knows of a move.
type moving struct {
	carried bool // the attempt has a Later
	hop     int64
	above   time.Duration
	lease   time.Duration
	body    string
	stale   bool
	changed bool
	double  bool
}

// arrive applies the Later of a step, as scripts/record.lua does.
func (e *entry) arrive(l Later) moving {
	if l == (Later{}) {
		return moving{}
	}
	v := moving{carried: true, hop: l.Hop, above: time.Duration(ceilMillis(l.Above)) * time.Millisecond, lease: time.Duration(ceilMillis(l.Lease)) * time.Millisecond, body: l.Body}
	if v.above == 0 {
		v.above = math.MaxInt64
	}
	if e.Move.Top > 0 && e.Move.Body != l.Body && e.Move.Body != mixed {
		v.double = !e.PossibleDuplicate
		e.Move.Body, e.PossibleDuplicate, e.firsts, v.changed = mixed, true, true, true
	}
	if l.Hop > e.Move.Hop {
		if e.Move.Top == 0 {
			e.Move.Body = l.Body
		}
		e.confirm(l.Hop)
		v.changed = true
	}
	v.stale = e.Move.Body == l.Body && (l.Hop < e.Move.Hop || l.Hop > 0 && e.State == StateDone)
	return v
}

// confirm notes that the copy with a hop exists.
func (e *entry) confirm(hop int64) {
	e.Move.Hop = hop
	if hop >= e.Move.Top {
		e.Move.Top, e.Move.Until, e.Move.Mover = hop, time.Time{}, ""
	}
}

// unknown notes that a consumer without a later lane has a moved message.
func (e *entry) unknown(v *moving) {
	if e.Move.Top > 0 && !v.carried {
		e.Move.Body, v.changed = mixed, true
	}
}

// renew clears the record for a new use of the id.
func (e *entry) renew(v *moving) {
	e.clear()
	v.stale, v.double = false, false
	if e.Move.Top > 0 {
		e.Move.Body = mixed
	}
}

// move decides whether a message that is not yet due is moved now. If not, it returns how long to wait for the move of another consumer.
func (e *entry) move(v *moving, token string, begins bool, now time.Time) (verdict Verdict, rest time.Duration) {
	underway := !e.Move.Until.IsZero()
	switch {
	case underway && e.Move.Until.After(now) && e.Move.Mover != token:
		return 0, min(e.Move.Until.Sub(now), moveLease)
	case !underway && !begins:
		return 0, 0
	}
	if !underway {
		e.Move.Top++
	}
	if e.Move.Body == "" {
		e.Move.Body = v.body
	}
	e.Move.Until, e.Move.Mover, v.changed = now.Add(moveLease), token, true
	return VerdictMove, 0
}

// stay ends a move that has become too late.
func (e *entry) stay(v *moving) {
	if !e.Move.Until.IsZero() {
		e.Move.Until, e.Move.Mover, v.changed = time.Time{}, "", true
	}
}

// runs returns for how long an attempt at another copy may still run; zero: none does.
func (e *entry) runs(v moving, now time.Time) time.Duration {
	if !v.carried || v.hop == 0 || e.OpenToken == "" {
		return 0
	}
	since := e.OpenSince
	if since.After(now) {
		since = now
	}
	return max(since.Add(v.lease).Sub(now), 0)
}
