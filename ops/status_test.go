package ops

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func earlierBy(d time.Duration) time.Time { return noon.Add(-d) }

func TestStateOf(t *testing.T) {
	for name, tc := range map[string]struct {
		r         counter.Record
		consumers int
		want      State
	}{
		"shared":                 {counter.Record{OpenToken: "a"}, 1, Running},
		"exclusive":              {counter.Record{OpenToken: "a", OpenMode: rules.ModeIsolated}, 1, Isolated},
		"no consumer":            {counter.Record{OpenToken: "a", OpenMode: rules.ModeIsolated}, 0, Left},
		"in its backoff":         {counter.Record{Failures: 1, Due: noon.Add(1), Wait: 1}, 1, Waiting},
		"in it without consumer": {counter.Record{Failures: 1, Due: noon.Add(1), Wait: 1}, 0, Waiting},
		"backoff is over":        {counter.Record{Failures: 1, Due: noon}, 1, Ready},
		"for five minutes":       {counter.Record{Failures: 1, Due: earlierBy(counter.ForgottenAfter)}, 1, Ready},
		"for longer":             {counter.Record{Failures: 1, Due: earlierBy(counter.ForgottenAfter + 1)}, 1, Forgotten},
		"no backoff":             {counter.Record{Failures: 1, LastTime: earlierBy(time.Second)}, 1, Ready},
		"no backoff, long ago":   {counter.Record{Crashes: 1, LastTime: earlierBy(time.Hour)}, 1, Forgotten},
	} {
		if got := stateOf(tc.r, &Status{Time: noon, Consumers: &tc.consumers}); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// TestReadyMessageThatRests: an attempt that is not counted writes no record, so an old one is not forgotten while
// consumers hold messages. Queue and list agree, and say what it waits for.
func TestReadyMessageThatRests(t *testing.T) {
	open := counter.Breaker{Doubt: earlierBy(time.Hour), Open: earlierBy(time.Hour)}
	awaited := counter.Breaker{Awaited: noon.Add(time.Second)}
	last := counter.Override{MaxRetries: new(1)}
	for name, tc := range map[string]struct {
		s         counter.QueueState
		consumers int
		holds     int
		age       time.Duration
		want      State
		does      string
	}{
		"the breaker is open": {counter.QueueState{Breaker: open}, 1, 0, time.Hour, Ready,
			"waits until a message succeeds, or for a probe"},
		"no consumer is left": {counter.QueueState{Breaker: open}, 0, 0, time.Hour, Ready, "waits for a consumer"},
		"no consumer":         {counter.QueueState{}, 0, 0, time.Minute, Ready, "waits for a consumer"},
		"it has closed": {counter.QueueState{Breaker: counter.Breaker{Closed: earlierBy(time.Second)}}, 1, 0, time.Hour,
			Ready, "next attempt now"},
		"it closed long ago": {counter.QueueState{Breaker: counter.Breaker{Closed: earlierBy(time.Hour)}}, 1, 0, time.Hour,
			Forgotten, "not delivered since: it waits for a consumer, or left the queue"},
		"a pause": {counter.QueueState{Paused: &counter.Pause{}}, 1, 0, time.Hour, Ready,
			"waits until its queue is resumed"},
		"a consumer holds messages": {counter.QueueState{}, 1, 1, time.Hour, Ready,
			"next attempt now, or after its backoff"},
		"a success": {counter.QueueState{Breaker: awaited, Override: &last}, 1, 0, time.Second, Ready,
			"its last attempt may wait up to 30s for another message to succeed"},
		"a success, but no consumer": {counter.QueueState{Breaker: awaited, Override: &last}, 0, 0, time.Second, Ready,
			"waits for a consumer"},
	} {
		tc.s.Time = noon
		tc.s.Consumers = []counter.ConsumerState{{Waiting: counter.Waiting{Messages: tc.holds}}}
		kept := counter.Summary{QueueState: tc.s}
		kept.Head = &counter.Record{Failures: 1, FirstTime: earlierBy(time.Hour), LastTime: earlierBy(tc.age)}
		all := Status{Consumers: &tc.consumers}
		all.ofStore(kept)
		all.lead()
		one := all.Head
		if one.State != tc.want || one.Doing(noon) != tc.does || all.Blocked > 0 != (tc.want == Ready) {
			t.Errorf("%s: %s, %q, blocked for %s; want %s, %q", name, one.State, one.Doing(noon), all.Blocked, tc.want, tc.does)
		}
	}
}

func TestBlockingIsSortedByLength(t *testing.T) {
	all := []Message{
		{ID: "gone", State: Forgotten, Since: earlierBy(48 * time.Hour)},
		{ID: "second", State: Ready, Since: earlierBy(time.Minute)},
		{ID: "b", State: Running, Since: earlierBy(time.Second)},
		{ID: "head", State: Waiting, Since: earlierBy(time.Hour)},
		{ID: "a", State: Running, Since: earlierBy(time.Second)},
	}
	slices.SortFunc(all, byLength)
	var got []string
	for _, b := range all {
		got = append(got, b.ID)
	}
	if diff := cmp.Diff([]string{"head", "second", "a", "b", "gone"}, got); diff != "" {
		t.Error(diff)
	}
}

// TestKept: a dead-letter queue that was found is asked for again, because a policy may lead elsewhere meanwhile.
func TestKept(t *testing.T) {
	q := question{found: "orders.dlq", foundAt: earlierBy(routesEvery - 1)}
	if soon, later := q.kept(noon), q.kept(noon.Add(1)); soon != "orders.dlq" || later != "" {
		t.Errorf("%q, and a moment later %q", soon, later)
	}
	q.DeadLetterQueue = "named"
	if got := q.kept(noon); got != "named" {
		t.Errorf("%q, but another was asked for", got)
	}
}

// TestReasonsAreBounded: a status lists the largest groups, and sums up the rest and those beyond a tally's bound.
func TestReasonsAreBounded(t *testing.T) {
	all := Groups{Groups: []*Group{{Count: 9}}, Count: 9}
	for range maxReasons + 2 {
		all.Groups, all.Count = append(all.Groups, &Group{Key: "k", Count: 2}), all.Count+2
	}
	d := DeadLetters{Count: 100}
	if d.explain(all); len(d.Reasons) != maxReasons || d.Others != 13 || d.Unknown != 100-int64(all.Count) {
		t.Errorf("%d reasons, %d others, %d unknown", len(d.Reasons), d.Others, d.Unknown)
	}
}

func TestJudgeDeadLetters(t *testing.T) {
	five := func(d DeadLetters) DeadLetters { d.Count = 5; return d }
	for _, tc := range []struct {
		d                            DeadLetters
		missing, unclear, unrecorded int64
	}{
		{five(DeadLetters{}), 0, 0, 0},
		{five(DeadLetters{Removed: 5}), 0, 0, 0},
		{DeadLetters{Holds: new(0)}, 0, 0, 0},
		{five(DeadLetters{Holds: new(5)}), 0, 0, 0},
		{five(DeadLetters{Holds: new(9), Taken: new(int64(0))}), 0, 0, 4}, // others' dead letters too
		{five(DeadLetters{Holds: new(3)}), 2, 0, 0},
		{five(DeadLetters{Holds: new(3), Taken: new(int64(2))}), 0, 0, 0},
		{five(DeadLetters{Holds: new(3), Taken: new(int64(7))}), 0, 0, 0},
		{five(DeadLetters{Holds: new(3), Taken: new(int64(1))}), 1, 0, 0},
		{five(DeadLetters{Holds: new(0), Taken: new(int64(0))}), 5, 0, 0},
		{five(DeadLetters{Holds: new(3), Removed: 2}), 0, 0, 0},
		{five(DeadLetters{Holds: new(2), Removed: 2}), 1, 0, 0},
		{five(DeadLetters{Holds: new(3), Taken: new(int64(0)), Removed: 2}), 0, 0, 0}, // the broker began to count later
		{five(DeadLetters{Holds: new(3), Taken: new(int64(2)), Removed: 2}), 0, 0, 0}, // seen by both
		{five(DeadLetters{Holds: new(2), Taken: new(int64(3)), Removed: 2}), 0, 0, 0},
		{five(DeadLetters{Holds: new(1), Taken: new(int64(3)), Removed: 2}), 1, 0, 0},
		{five(DeadLetters{Holds: new(3), Removed: 4}), 0, 0, 2}, // copies of one
		// a dead letter that the source keeps for its route is there
		{five(DeadLetters{Holds: new(1), Waiting: 4, Taken: new(int64(0))}), 0, 0, 0},
		{five(DeadLetters{Holds: new(1), Waiting: 2, Taken: new(int64(0)), Removed: 1}), 1, 0, 0},
		{five(DeadLetters{Holds: new(5), Waiting: 2, Taken: new(int64(0))}), 0, 0, 0}, // they have just arrived
		// a queue that is not at rest is not judged
		{five(DeadLetters{Holds: new(1), Out: 2, consumers: 1}), 0, 4, 0},
		{five(DeadLetters{Holds: new(1), Taken: new(int64(1)), moving: true}), 0, 3, 0},
		{five(DeadLetters{Holds: new(1), recent: 1}), 3, 1, 0},
		{five(DeadLetters{Holds: new(1), recent: 9}), 0, 4, 0},
		{five(DeadLetters{Holds: new(5), consumers: 1, recent: 2}), 0, 0, 0},
		// those whose records expired are not missing; those that others took are the oldest
		{five(DeadLetters{Holds: new(1), Expired: 1}), 3, 0, 0},
		{five(DeadLetters{Holds: new(0), Expired: 5}), 0, 0, 0},
		{five(DeadLetters{Holds: new(1), Expired: 2, Taken: new(int64(3))}), 1, 0, 0},
		{five(DeadLetters{Holds: new(1), Expired: 2, Removed: 1, Taken: new(int64(2))}), 1, 0, 0},
		// dead letters of blocked lanes hide no others, and may be missing too
		{five(DeadLetters{Holds: new(9), Blocked: 4}), 0, 0, 0},
		{five(DeadLetters{Holds: new(8), Blocked: 4, Taken: new(int64(0))}), 1, 0, 0},
		{five(DeadLetters{Holds: new(5), Blocked: 4, recent: 4}), 0, 4, 0},
		// a store that has lost its data leaves dead letters behind that it does not know
		{DeadLetters{}, 0, 0, 0},
		{DeadLetters{Holds: new(5)}, 0, 0, 5},
		{DeadLetters{Count: 2, Holds: new(5)}, 0, 0, 3},
		{DeadLetters{Count: 4, Removed: 2, Holds: new(5)}, 0, 0, 3},
		{DeadLetters{Count: 4, Expired: 1, Holds: new(5)}, 0, 0, 1}, // the fourth lies there without its record
		{five(DeadLetters{Expired: 2, Holds: new(5)}), 0, 0, 0},     // so do two more messages with the ids of others
		{DeadLetters{Count: 2, Blocked: 3, Holds: new(5)}, 0, 0, 0},
		{DeadLetters{Holds: new(5), consumers: 1}, 0, 0, 0}, // the figures are not of one moment
		{DeadLetters{Holds: new(5), moving: true}, 0, 0, 0},
	} {
		d := tc.d
		if d.judge(); d.Missing != tc.missing || d.Unclear != tc.unclear || d.Unrecorded != tc.unrecorded {
			t.Errorf("%+v: %d missing, %d unclear, %d unrecorded; want %d, %d, %d", tc.d, d.Missing, d.Unclear, d.Unrecorded,
				tc.missing, tc.unclear, tc.unrecorded)
		}
	}
}

// TestBlockedDeadLettersAreNotMissing: while the route is broken, consumers hold dead letters.
func TestBlockedDeadLettersAreNotMissing(t *testing.T) {
	broken := []inspect.Finding{inspect.Say(inspect.CodeUnbound, nil)}
	strange := []inspect.Finding{inspect.Say(inspect.CodeAtMostOnce, nil), inspect.Say(inspect.CodeLimitLow, nil)}
	for _, tc := range []struct {
		route            []inspect.Finding
		consumers        int
		unacked          *int
		missing, unclear int64
	}{
		{nil, 1, new(3), 4, 0},
		{strange, 1, new(3), 4, 0},
		{broken, 0, new(0), 4, 0},
		{broken, 1, new(0), 4, 0},
		{broken, 1, new(3), 1, 3},
		{broken, 1, new(9), 0, 4},
		{broken, 1, nil, 0, 4},
	} {
		d := DeadLetters{Count: 5, Holds: new(1)}
		d.judge()
		if d.suppose(tc.route, tc.consumers, tc.unacked); d.Missing != tc.missing || d.Unclear != tc.unclear {
			t.Errorf("%+v: %d missing, %d unclear", tc, d.Missing, d.Unclear)
		}
	}
}

// TestReasonsAddUp: the dead letters that the reasons do not explain are counted, and replayed or dropped ones are not
// dead any more.
func TestReasonsAddUp(t *testing.T) {
	for _, tc := range []struct {
		d              DeadLetters
		counted        int
		still, unknown int64
	}{
		{DeadLetters{}, 0, 0, 0},
		{DeadLetters{Count: 9}, 9, 9, 0},
		{DeadLetters{Count: 9}, 6, 9, 3},
		{DeadLetters{Count: 9, Removed: 3}, 6, 6, 0},
		{DeadLetters{Count: 9, Removed: 9}, 0, 0, 0},
		{DeadLetters{Count: 2, Removed: 3}, 4, 0, 0}, // the count was forgotten meanwhile
	} {
		d := tc.d
		if d.explain(Groups{Count: tc.counted}); d.Still != tc.still || d.Unknown != tc.unknown {
			t.Errorf("%+v: %d dead, %d unknown; want %d, %d", tc.d, d.Still, d.Unknown, tc.still, tc.unknown)
		}
	}
}

// TestCompare: a queue of which AMQP and the management API report different
// figures is not at rest.
func TestCompare(t *testing.T) {
	for _, tc := range []struct {
		consumers int
		load      broker.Load
		out       int
		moving    bool
	}{
		{0, broker.Load{Ready: 3, Taken: 4}, 0, false},
		{0, broker.Load{Ready: 2, Taken: 4}, 0, true},
		{0, broker.Load{Ready: 3, Unacked: 1, Taken: 4}, 0, true}, // read by dead list
		{1, broker.Load{Ready: 3, Unacked: 1, Taken: 4}, 1, true},
	} {
		holds := 3
		d := DeadLetters{Holds: &holds, consumers: tc.consumers}
		d.compare(tc.load)
		if d.Out != tc.out || d.moving != tc.moving || *d.Taken != 4 {
			t.Errorf("%+v: %d out, moving %v, %d taken", tc, d.Out, d.moving, *d.Taken)
		}
	}
}

// TestWaits: the same reason is told once, with the number of messages and processes.
func TestWaits(t *testing.T) {
	holds := func(consumer string, messages int, since time.Duration, why string) counter.ConsumerState {
		return counter.ConsumerState{Consumer: consumer, Seen: noon, Waiting: counter.Waiting{Messages: messages, For: since,
			Why: why}}
	}
	want := []WaitingMessages{
		{4, noon.Add(-3), "dial tcp 10.0.0.1:5432: refused", []string{"a", "c"}},
		{2, noon.Add(-2), "no stock", []string{"b"}},
	}
	got := waitingBy([]counter.ConsumerState{holds("c", 3, 1, "dial tcp 10.0.0.7:5432: refused"), holds("d", 0, 9, ""),
		holds("b", 2, 2, "no stock"), holds("a", 1, 3, "dial tcp 10.0.0.1:5432: refused")})
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

// TestAnEmptyQueueBlocksNothing: the broker expired the message, and its record stays.
func TestAnEmptyQueueBlocksNothing(t *testing.T) {
	old := counter.Record{State: counter.StateLive, Failures: 1, LastTime: noon.Add(-time.Minute),
		Due: noon.Add(-50 * time.Second)}
	recent, waits, moved, returning := old, old, old, old
	recent.LastTime = noon.Add(-time.Second)
	waits.Due = noon.Add(time.Hour)
	moved.Move.Top, moved.Due = 1, noon.Add(time.Hour)
	returning.Move.Top, returning.Due = 1, noon.Add(-time.Second)
	for _, tt := range []struct {
		name    string
		r       counter.Record
		ready   int
		unacked *int
		want    int
	}{
		{"gone", old, 0, new(0), 0},
		{"gone before its retry", waits, 0, new(0), 0},
		{"ready", old, 1, new(0), 1},
		{"a consumer has it", old, 0, new(1), 1},
		{"unknown without the API", old, 0, nil, 1},
		{"the figures are older than its step", recent, 0, new(0), 1},
		{"in a delay queue", moved, 0, new(0), 1},
		{"on its way back", returning, 0, new(0), 1},
	} {
		s := Status{Time: noon, Ready: &tt.ready, Unacked: tt.unacked, Consumers: new(1)}
		s.Blocking = []Message{blocking(tt.r, nil, &s)}
		if s.lead(); len(s.Blocking) != tt.want || (s.Head != nil) != (tt.want > 0) {
			t.Errorf("%s: %d block, want %d; head %+v", tt.name, len(s.Blocking), tt.want, s.Head)
		}
	}
}

// TestAnOperatorsPauseNamesNoMessage: a queue waits for a message only if it is paused for that message.
func TestAnOperatorsPauseNamesNoMessage(t *testing.T) {
	r := counter.Record{State: counter.StateLive, Failures: 2, Limit: 2, FirstTime: noon, LastTime: noon}
	r.ID = "m"
	s := Status{Time: noon, Ready: new(1), Paused: &counter.Note{By: "ann", Why: "maintenance"}}
	if m := blocking(r, nil, &s); m.Holds {
		t.Errorf("the queue is said to wait for it: %q", m.Doing(noon))
	}
}

// TestWhich says which attempt of a message runs or is next.
func TestWhich(t *testing.T) {
	for want, m := range map[string]Message{
		"attempt 1":               {Attempt: 1},
		"attempt 1 of 2":          {Attempt: 1, Limit: 2},
		"all 2 attempts failed":   {Attempt: 3, Limit: 2},
		"its only attempt failed": {Attempt: 2, Limit: 1},
	} {
		if got := m.Which(); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

// TestDealToAKilledProcess: a process that was killed, and that no other process has replaced, has no partition.
func TestDealToAKilledProcess(t *testing.T) {
	now := time.Unix(1700000000, 0)
	s := Status{Time: now, Partitions: make([]Partition, 2)}
	s.dealt(counter.Deal{Partitions: 2, Members: []rules.Member{
		{Consumer: "lives", Read: now.Add(-2 * time.Second), Partitions: []int{0}},
		{Consumer: "killed", Read: now.Add(-time.Minute), Partitions: []int{1}},
	}})
	if s.Partitions[0].Process != "lives" || s.Partitions[1].Process != "" {
		t.Errorf("%+v", s.Partitions)
	}
}
