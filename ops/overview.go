package ops

import (
	"cmp"
	"errors"
	"slices"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
)

// Overview is all queues at one moment, the worst first.
type Overview struct {
	Time   time.Time `json:"time"` // by the store
	VHost  string    `json:"vhost"`
	Queues []Status  `json:"queues"`

	// of the virtual host; empty: it has none, or the management API did not list them
	DelayQueues []DelayQueue `json:"delay_queues,omitempty"`

	// Alarms say that the broker blocks publishers, and why the store refuses writes.
	Alarms []inspect.Finding `json:"alarms,omitempty"`

	// Missing is the number of missing dead letters. The sum over Queues counts those of a shared dead-letter queue twice.
	Missing int64 `json:"-"`

	Broker error `json:"-"` // why the broker did not say all: a later All may succeed
	Store  error `json:"-"` // why the store said nothing
}

// Trouble is a kind of defect of a queue.
type Trouble string

// The troubles, the worst first.
const (
	TroubleRoute Trouble = "route" // its dead letters reach no queue: they are lost, or consumers hold them
	// for over a minute a message has blocked its queue, has waited without a count, or no message has succeeded; or a
	// message cannot be decoded, or the queue has no majority
	TroubleBlocked     Trouble = "blocked"
	TroubleUnaccounted Trouble = "unaccounted" // dead letters are missing
	TroubleUnsafe      Trouble = "unsafe"      // the doctor finds an error that is not of the dead-letter route
	TroubleStopped     Trouble = "stopped"     // messages wait: a pause, no consumer, or no message succeeds
	TroubleLanes       Trouble = "lanes"       // lanes are blocked: their messages are dead-lettered without an attempt
	TroubleRetrying    Trouble = "retrying"
	TroubleDead        Trouble = "dead"
	TroubleNone        Trouble = ""
)

var troubles = []Trouble{TroubleRoute, TroubleBlocked, TroubleUnaccounted, TroubleUnsafe, TroubleStopped, TroubleLanes,
	TroubleRetrying, TroubleDead, TroubleNone}

// blockedAfter is how long a message may block before it is trouble.
const blockedAfter = time.Minute

func (s *Status) ofBroker(seen sight, name string, partitions []string) {
	l, known := seen.loads[name]
	for _, partition := range partitions {
		one, exists := seen.loads[partition]
		p := Partition{Queue: partition, Missing: !exists, Ready: one.Ready, Consumers: one.Consumers}
		s.Partitions, l, known = append(s.Partitions, p), l.With(one), known || exists
	}
	s.Absent = !known && (seen.listed != nil || seen.absent[name])
	if known {
		s.Ready, s.Consumers = &l.Ready, &l.Consumers
	}
	if known && seen.listed != nil {
		s.Unacked, s.Rates = &l.Unacked, &Rates{In: l.In, Out: l.Out, Acked: l.Acked}
		s.Dead.Waiting, s.Dead.WaitingSeen = l.DeadLettering, true
	}
	s.Dead.Queue = seen.routes[name].Name
	for _, l := range seen.routes[name].several {
		s.Dead.Landings = append(s.Dead.Landings, Landing{l.Queue, new(seen.loads[l.Queue].Ready)})
	}
	s.Findings = seen.found[name]
}

func (s *Status) ofStore(kept counter.Summary) {
	s.Time, s.Partial = kept.Time, kept.Partial
	if kept.Err != nil {
		s.Unknown = kept.Err.Error()
	}
	s.StoreSeen = !kept.Time.IsZero() && kept.Err == nil
	s.Dead.counted(kept)
	s.BlockedLanes, s.Undecodable, s.breaker = kept.BlockedLanes, kept.Undecodable, kept.Breaker
	s.Waiting, s.Processes = waitingBy(kept.Consumers), seen(kept.Consumers, kept.Time)
	for _, process := range s.Processes {
		if process.Silence() != "" {
			s.Silent++
		}
	}
	if s.Breaker = breakerOf(kept.Breaker, kept.Time); s.Breaker.Stops() {
		s.Stopped = max(kept.Time.Sub(s.Breaker.Since), 0)
	}
	if p := kept.Paused; p != nil {
		s.Paused = &p.Note
		if h := p.Holding; h != nil {
			s.Holding = &Holding{ID: h.ID, Cause: h.Cause, Since: p.At}
		}
	}
	if kept.Override != nil {
		s.Limit = new((&Queue{VHost: s.VHost, Name: s.Queue}).LimitOf(*kept.Override))
	}
	s.Retrying, s.Forgotten = kept.Retrying, kept.Forgotten
	records := kept.Records
	if records == nil && kept.Head != nil {
		records = []counter.Record{*kept.Head}
	}
	for _, r := range records {
		s.Blocking = append(s.Blocking, blocking(r, kept.Override, s))
	}
}

// judge accounts for the dead letters, and puts the worst queue first.
func (o *Overview) judge(seen sight) {
	sharing := map[string][]*Status{}
	for i := range o.Queues {
		s := &o.Queues[i]
		if s.Dead.Queue != "" && o.Store == nil && s.Unknown == "" {
			sharing[s.Dead.Queue] = append(sharing[s.Dead.Queue], s)
		}
	}
	for name, of := range sharing {
		if l, listed := seen.listed[name]; listed {
			o.Missing += account(of, DeadLetters{Queue: name, Holds: &l.Ready, Out: l.Unacked, Taken: &l.Taken,
				consumers: l.Consumers, moving: l.Unacked > 0 || l.Out > 0 || l.Acked > 0})
		}
	}
	for i := range o.Queues {
		o.Queues[i].Trouble = o.Queues[i].trouble(o.Time)
	}
	slices.SortFunc(o.Queues, worse)
}

// account compares the messages that queues dead-lettered with those in their shared dead-letter queue. It returns the
// number of missing dead letters.
func account(of []*Status, at DeadLetters) int64 {
	for _, s := range of {
		at.Count, at.Removed, at.recent = at.Count+s.Dead.Count, at.Removed+s.Dead.Removed, at.recent+s.Dead.recent
		at.Waiting, at.Expired, at.Blocked = at.Waiting+s.Dead.Waiting, at.Expired+s.Dead.Expired, at.Blocked+s.Dead.Blocked
	}
	at.judge()
	for _, s := range of {
		d := &s.Dead
		d.Holds, d.Taken = at.Holds, at.Taken
		if len(of) == 1 {
			d.Out = at.Out
			d.remain()
			d.Unrecorded = at.Unrecorded // also, for up to 10 s, messages that were just replayed
		}
		most := d.Still + d.Blocked
		d.Missing, d.Unclear, s.Sharing = min(at.Missing, most), min(at.Unclear, most), len(of)-1
	}
	return at.Missing
}

func (s *Status) trouble(now time.Time) Trouble {
	switch {
	case slices.ContainsFunc(s.Findings, losesDeadLetters):
		return TroubleRoute
	case s.Blocked > blockedAfter, s.Stopped > blockedAfter,
		len(s.Waiting) > 0 && now.Sub(s.Waiting[0].Since) > blockedAfter, s.Undecodable != "", s.Unknown != "",
		slices.ContainsFunc(s.Findings, func(f inspect.Finding) bool { return f.Code == inspect.CodeNodeDown }):
		return TroubleBlocked
	case s.Dead.Missing > 0:
		return TroubleUnaccounted
	case len(s.Findings) > 0:
		return TroubleUnsafe
	case s.Breaker.Stops(), s.Unattended() > 0, s.Paused != nil && s.Ready != nil && *s.Ready > 0:
		return TroubleStopped
	case s.BlockedLanes > 0:
		return TroubleLanes
	case s.Failing() > s.Forgotten:
		return TroubleRetrying
	case s.Dead.Still > 0, s.Dead.Unrecorded > 0, s.DeadLettersOf != "" && s.Ready != nil && *s.Ready > 0:
		return TroubleDead
	}
	return TroubleNone
}

// worse puts the queue first that needs a person more.
func worse(a, b Status) int {
	since := func(s Status) int64 {
		if s.Dead.Still == 0 {
			return 1<<63 - 1
		}
		return s.Dead.Since.UnixMilli()
	}
	ready := func(s Status) int {
		if s.Ready == nil {
			return 0
		}
		return *s.Ready
	}
	return cmp.Or(
		cmp.Compare(slices.Index(troubles, a.Trouble), slices.Index(troubles, b.Trouble)),
		cmp.Compare(b.Blocked, a.Blocked), cmp.Compare(b.Failing(), a.Failing()), cmp.Compare(b.Dead.Missing, a.Dead.Missing),
		cmp.Compare(since(a), since(b)), cmp.Compare(ready(b), ready(a)), cmp.Compare(a.Queue, b.Queue))
}

// Failing returns how many messages fail, at least. Some of Waiting may be in Retrying too, and the store does not know
// which.
func (s Status) Failing() int { return max(s.Retrying, s.AllWaiting().Messages) }

// Failed returns the errors of the servers that could not be asked, or nil.
func (o Overview) Failed() error { return errors.Join(o.Broker, o.Store) }
