package compare

import (
	"maps"
	"slices"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
)

// verdict counts how the messages of a part ended.
type verdict struct {
	lost       int // messages that were not handled, and are in no queue
	twice      int // messages that were handled again after a success
	tooMany    int // attempts of messages that always fail, beyond the limit
	tooEarly   int // failing messages that were dead-lettered before the limit, or although they succeeded
	innocents  int // healthy messages that were dead-lettered
	left       int // messages in the queues at the end
	inversions int // messages handled before one ahead of them was done
	requeues   int // retries of failed attempts in the worst second
	// from the first attempt to the end of the last one, without the time for which the broker was away
	took       time.Duration
	drained    bool
	killed     int  // processes, by killers
	killerDead bool // no killer is left

	good     int // messages that fail only while the dependency is away, and were not handled before it was
	attempts int // that began while it was away
	// from its return to the next success in the first process, and in the last one that has another success
	resumed, resumedAll time.Duration
	goesOn              bool // there was a success after its return
}

// story is the history of one message.
type story struct {
	seq        int
	do         string
	began      []time.Time
	retried    []time.Time // those of began that follow a failed attempt
	succeeded  time.Time   // first; zero: never
	failed     int         // attempts
	lastEnd    time.Time
	dead, left bool
}

// judge judges a history by itself. limit is how many attempts the way allows a message.
func judge(events []audit.Event, limit int) verdict {
	stories, v := map[string]*story{}, verdict{killerDead: true}
	var first, last, gone time.Time
	var away time.Duration
	o := absence{resumed: map[int]time.Duration{}}
	for _, e := range events {
		o.add(e)
		s := stories[e.ID]
		switch {
		case e.Kind == audit.Published:
			stories[e.ID] = &story{seq: e.Seq, do: e.Do}
		case e.Kind == audit.Drained:
			v.drained = true
		case e.Kind == audit.Fault && e.Fault == audit.BrokerKill:
			gone = e.At
		case e.Kind == audit.FaultOver && e.Fault == audit.BrokerKill:
			away += e.At.Sub(gone)
		case s == nil:
		case e.Kind == audit.Began:
			if first.IsZero() {
				first = e.At
			}
			s.begin(e)
		case e.Kind == audit.Ended:
			last = e.At
			s.end(e)
		case e.Kind == audit.Dead:
			s.dead = true
		case e.Kind == audit.Left:
			s.left = true
		}
	}
	v.took = max(0, last.Sub(first)-away)
	all := make([]*story, 0, len(stories))
	for _, s := range stories {
		all = append(all, s)
		v.count(s, limit, o.from)
	}
	v.inversions = inversions(all)
	v.requeues = worstSecond(all)
	v.attempts = o.attempts
	if v.goesOn = len(o.resumed) > 0; v.goesOn {
		all := slices.Sorted(maps.Values(o.resumed))
		v.resumed, v.resumedAll = all[0], all[len(all)-1]
	}
	return v
}

// absence is the time in which the dependency was away.
type absence struct {
	from, to time.Time
	attempts int
	resumed  map[int]time.Duration // by process: from the dependency's return to its next success
}

func (o *absence) add(e audit.Event) {
	switch _, did := o.resumed[e.Process]; {
	case e.Kind == audit.Fault && e.Fault == audit.DependencyAway:
		o.from = e.At
	case e.Kind == audit.FaultOver && e.Fault == audit.DependencyAway:
		o.to = e.At
	case e.Kind == audit.Began && !o.from.IsZero() && o.to.IsZero():
		o.attempts++
	case e.Kind == audit.Ended && e.Outcome == audit.OK && !o.to.IsZero() && !did:
		o.resumed[e.Process] = e.At.Sub(o.to)
	}
}

func (s *story) begin(e audit.Event) {
	s.began = append(s.began, e.At)
	if s.failed > 0 && s.succeeded.IsZero() {
		s.retried = append(s.retried, e.At)
	}
}

func (s *story) end(e audit.Event) {
	s.lastEnd = e.At
	if e.Outcome != audit.OK {
		s.failed++
	} else if s.succeeded.IsZero() {
		s.succeeded = e.At
	}
}

// count counts a message. The dependency is away from a time on, if that is not zero.
func (v *verdict) count(s *story, limit int, away time.Time) {
	ok := !s.succeeded.IsZero()
	if s.left {
		v.left++
	}
	switch {
	case !ok && !s.dead && !s.left:
		v.lost++
	case ok && slices.ContainsFunc(s.began, s.succeeded.Before):
		v.twice++
	}
	switch s.do {
	case audit.Succeed:
		if s.succeeded.IsZero() || s.succeeded.After(away) {
			v.good++
		}
		if s.dead {
			v.innocents++
		}
	case audit.Kill:
		v.killed += len(s.began)
		v.killerDead = v.killerDead && s.dead
	case audit.Poison:
		v.tooMany += max(0, s.failed-limit)
	}
	if (s.do == audit.Poison || s.do == audit.Fail) && s.dead && (ok || s.failed < limit) {
		v.tooEarly++
	}
}

// done is when a message was through: at its success, or, if it was dead-lettered, at the end of its last attempt.
func (s *story) done() time.Time {
	if s.succeeded.IsZero() {
		return s.lastEnd
	}
	return s.succeeded
}

// inversions counts messages that a handler got while an earlier one was not through.
func inversions(all []*story) (n int) {
	slices.SortFunc(all, func(a, b *story) int { return a.seq - b.seq })
	var earlier time.Time // when all earlier ones were through
	for _, s := range all {
		if len(s.began) > 0 && s.began[0].Before(earlier) {
			n++
		}
		if s.done().After(earlier) {
			earlier = s.done()
		}
	}
	return n
}

// worstSecond is the most retries that began within one second.
func worstSecond(all []*story) (most int) {
	var retried []time.Time
	for _, s := range all {
		retried = append(retried, s.retried...)
	}
	slices.SortFunc(retried, time.Time.Compare)
	from := 0
	for i, at := range retried {
		for at.Sub(retried[from]) >= time.Second {
			from++
		}
		most = max(most, i-from+1)
	}
	return most
}
