package main

import (
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func earlierBy(d time.Duration) time.Time { return noon.Add(-d) }

func TestBlockState(t *testing.T) {
	for name, tc := range map[string]struct {
		r         counter.Record
		consumers int
		want      string
	}{
		"shared":                 {counter.Record{OpenToken: "a"}, 1, blockRuns},
		"exclusive":              {counter.Record{OpenToken: "a", OpenMode: counter.ModeIsolated}, 1, blockRunsAlone},
		"nobody consumes":        {counter.Record{OpenToken: "a", OpenMode: counter.ModeIsolated}, 0, blockLeft},
		"in its backoff":         {counter.Record{Failures: 1, Due: noon.Add(1), Wait: 1}, 1, blockWaits},
		"in it without consumer": {counter.Record{Failures: 1, Due: noon.Add(1), Wait: 1}, 0, blockWaits},
		"backoff is over":        {counter.Record{Failures: 1, Due: noon}, 1, blockReady},
		"for five minutes":       {counter.Record{Failures: 1, Due: earlierBy(forgottenAfter)}, 1, blockReady},
		"for longer":             {counter.Record{Failures: 1, Due: earlierBy(forgottenAfter + 1)}, 1, blockForgotten},
		"no backoff":             {counter.Record{Failures: 1, LastTime: earlierBy(time.Second)}, 1, blockReady},
		"no backoff, long ago":   {counter.Record{Crashes: 1, LastTime: earlierBy(time.Hour)}, 1, blockForgotten},
	} {
		if got := blockState(tc.r, &standing{Time: noon, Consumers: tc.consumers}); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

func TestBlocks(t *testing.T) {
	for name, tc := range map[string]struct {
		r    counter.Record
		want bool
	}{
		"failed":               {counter.Record{Failures: 1}, true},
		"crashed":              {counter.Record{Crashes: 1}, true},
		"runs again":           {counter.Record{OpenToken: "a"}, true},
		"stopped":              {counter.Record{Starts: 1}, false},
		"dead-lettered":        {counter.Record{State: counter.StateDeadLetter, Failures: 4}, false},
		"handled":              {counter.Record{State: counter.StateDone, Failures: 1}, false},
		"made clean by an op.": {counter.Record{Reset: counter.Note{Why: "x"}}, false},
	} {
		if got := blocks(tc.r); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

func TestBlockingIsSortedByLength(t *testing.T) {
	all := []blocking{
		{ID: "gone", State: blockForgotten, Since: earlierBy(48 * time.Hour)},
		{ID: "second", State: blockReady, Since: earlierBy(time.Minute)},
		{ID: "b", State: blockRuns, Since: earlierBy(time.Second)},
		{ID: "head", State: blockWaits, Since: earlierBy(time.Hour)},
		{ID: "a", State: blockRuns, Since: earlierBy(time.Second)},
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

func TestTally(t *testing.T) {
	all := tally{"b": 2, "a": 2, "rare": 1, "often": 9, "once": 1}
	most, others := all.most(3)
	if diff := cmp.Diff([]reason{{"often", 9}, {"a", 2}, {"b", 2}}, most); diff != "" || others != 2 {
		t.Errorf("%d others; %s", others, diff)
	}
	if most, others := (tally{}).most(3); len(most) != 0 || others != 0 {
		t.Errorf("of nothing: %v, %d", most, others)
	}
}

func TestJudgeDeadLetters(t *testing.T) {
	five := func(d deadLetters) deadLetters { d.Count = 5; return d }
	n := func(n int) *int { return &n }
	taken := func(n int64) *int64 { return &n }
	const lost = ": taken out unseen, or by a command that was killed; expired; or lost"
	const unseen = lost + "; or waiting in the source queue, which only the management API shows"
	for _, tc := range []struct {
		d                deadLetters
		missing, unclear int64
		want             string
	}{
		{five(deadLetters{}), 0, 0, "whether they arrived cannot be told: there is no queue q.dlq (--dead-letter-queue names another)"},
		{five(deadLetters{Replayed: 5}), 0, 0, "whether they arrived cannot be told: there is no queue q.dlq (--dead-letter-queue names another)"},
		{deadLetters{Holds: n(0)}, 0, 0, "q.dlq holds 0"},
		{five(deadLetters{Holds: n(5)}), 0, 0, "q.dlq holds 5"},
		{five(deadLetters{Holds: n(9), Taken: taken(0)}), 0, 0, "q.dlq holds 9"}, // others' dead letters too
		{five(deadLetters{Holds: n(3)}), 2, 0, "q.dlq holds 3; missing 2" + unseen},
		{five(deadLetters{Holds: n(3), Taken: taken(2)}), 0, 0, "q.dlq holds 3, 2 at least taken out of it"},
		{five(deadLetters{Holds: n(3), Taken: taken(7)}), 0, 0, "q.dlq holds 3, 7 at least taken out of it"},
		{five(deadLetters{Holds: n(3), Taken: taken(1)}), 1, 0, "q.dlq holds 3, 1 at least taken out of it; missing 1" + lost},
		{five(deadLetters{Holds: n(0), Taken: taken(0)}), 5, 0, "q.dlq holds 0; missing 5" + lost},
		{five(deadLetters{Holds: n(3), Replayed: 2}), 0, 0, "q.dlq holds 3, 2 replayed or dropped"},
		{five(deadLetters{Holds: n(2), Replayed: 2}), 1, 0, "q.dlq holds 2, 2 replayed or dropped; missing 1" + unseen},
		{five(deadLetters{Holds: n(3), Taken: taken(0), Replayed: 2}), 0, 0, "q.dlq holds 3, 2 replayed or dropped"}, // the broker began to count later
		{five(deadLetters{Holds: n(3), Taken: taken(2), Replayed: 2}), 0, 0, "q.dlq holds 3, 2 replayed or dropped"}, // seen by both
		{five(deadLetters{Holds: n(2), Taken: taken(3), Replayed: 2}), 0, 0, "q.dlq holds 2, 2 replayed or dropped, 3 at least taken out of it"},
		{five(deadLetters{Holds: n(1), Taken: taken(3), Replayed: 2}), 1, 0, "q.dlq holds 1, 2 replayed or dropped, 3 at least taken out of it; missing 1" + lost},
		{five(deadLetters{Holds: n(3), Replayed: 4}), 0, 0, "q.dlq holds 3, 4 replayed or dropped"}, // copies of one
		// what the source keeps for the dead-letter route is there
		{five(deadLetters{Holds: n(1), Waiting: 4, Taken: taken(0)}), 0, 0, "q.dlq holds 1, 4 waiting in the source queue for the dead-letter route"},
		{five(deadLetters{Holds: n(1), Waiting: 2, Taken: taken(0), Replayed: 1}), 1, 0, "q.dlq holds 1, 2 waiting in the source queue for the dead-letter route, 1 replayed or dropped; missing 1" + lost},
		{five(deadLetters{Holds: n(5), Waiting: 2, Taken: taken(0)}), 0, 0, "q.dlq holds 5, 2 waiting in the source queue for the dead-letter route"}, // they have just arrived
		// what is not at rest is not judged
		{five(deadLetters{Holds: n(1), Out: 2, consumers: 1}), 0, 4, "q.dlq holds 1, 2 out with its consumers, 4 on the way or in use"},
		{five(deadLetters{Holds: n(1), Taken: taken(1), moving: true}), 0, 3, "q.dlq holds 1, 1 at least taken out of it, 3 on the way or in use"},
		{five(deadLetters{Holds: n(1), recent: 1}), 3, 1, "q.dlq holds 1, 1 on the way or in use; missing 3" + unseen},
		{five(deadLetters{Holds: n(1), recent: 9}), 0, 4, "q.dlq holds 1, 4 on the way or in use"},
		{five(deadLetters{Holds: n(5), consumers: 1, recent: 2}), 0, 0, "q.dlq holds 5"},
	} {
		d := tc.d
		d.Queue = "q.dlq"
		d.seen = d.Taken != nil || d.Waiting > 0
		if d.judge(); d.Verdict != tc.want || d.Missing != tc.missing || d.Unclear != tc.unclear {
			t.Errorf("%d missing, %d unclear, %s; want %d, %d, %s", d.Missing, d.Unclear, d.Verdict, tc.missing, tc.unclear, tc.want)
		}
	}
}

// TestReasonsAddUp: what the reasons do not explain is said, and what was replayed or dropped is not dead any more.
func TestReasonsAddUp(t *testing.T) {
	for _, tc := range []struct {
		d              deadLetters
		still, unknown int64
	}{
		{deadLetters{}, 0, 0},
		{deadLetters{Count: 9, Reasons: []reason{{"a", 4}, {"b", 3}}, Others: 2}, 9, 0},
		{deadLetters{Count: 9, Reasons: []reason{{"a", 4}}, Others: 2}, 9, 3},
		{deadLetters{Count: 9, Replayed: 3, Reasons: []reason{{"a", 4}}, Others: 2}, 6, 0},
		{deadLetters{Count: 9, Replayed: 9}, 0, 0},
		{deadLetters{Count: 2, Replayed: 3, Reasons: []reason{{"a", 4}}}, 0, 0}, // the count was forgotten meanwhile
	} {
		d := tc.d
		if d.explain(); d.Still != tc.still || d.Unknown != tc.unknown {
			t.Errorf("%+v: %d dead, %d unknown; want %d, %d", tc.d, d.Still, d.Unknown, tc.still, tc.unknown)
		}
	}
}

func TestLimitsIn(t *testing.T) {
	live := func(limit int, holder string, ago time.Duration) counter.Record {
		return counter.Record{Limit: limit, Holder: holder, Failures: 1, LastTime: earlierBy(ago)}
	}
	dead := live(4, "web-3", 0)
	dead.State = counter.StateDeadLetter
	for name, tc := range map[string]struct {
		records []counter.Record
		want    []limitSeen
	}{
		"nothing":                {nil, nil},
		"one":                    {[]counter.Record{live(4, "web-1", 0), live(4, "web-2", 0)}, nil},
		"two":                    {[]counter.Record{live(101, "web-2", 0), live(4, "web-9", 0), live(4, "web-1", 0)}, []limitSeen{{3, "web-1"}, {100, "web-2"}}},
		"not known":              {[]counter.Record{live(101, "web-2", 0), live(0, "web-1", 0)}, nil},
		"before a deployment":    {[]counter.Record{live(101, "web-2", 0), live(4, "web-1", time.Hour)}, nil},
		"what is dead-lettered":  {[]counter.Record{live(101, "web-2", 0), dead}, nil},
		"an attempt that is new": {[]counter.Record{live(101, "web-2", 0), {Limit: 4, Holder: "web-1", OpenSince: noon}}, []limitSeen{{3, "web-1"}, {100, "web-2"}}},
	} {
		if diff := cmp.Diff(tc.want, limitsIn(slices.Values(tc.records), noon)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

// TestStandingIsSafeToShow: whatever a message, a handler or an operator wrote, a terminal gets no control character of it,
// and no row is longer than the terminal is wide.
func TestStandingIsSafeToShow(t *testing.T) {
	const hostile = "\x1b]0;owned\x07\x1b[2J\r\n\u202e\u009b\x00\xff"
	n := 3
	taken := int64(1)
	s := standing{
		Time: noon, VHost: hostile, Queue: hostile, Notes: []string{hostile},
		Limit: &override{MaxRetries: 1, note: note{By: hostile, Reason: hostile}},
		Blocking: []blocking{{ID: hostile, State: blockRuns, Running: noon, Since: noon, Failures: 1, LastError: hostile,
			Holder: hostile, Suspect: true, Of: 4, Attempt: 2}},
		Blocked: 1,
		Dead: deadLetters{Count: 9, Since: noon, Queue: hostile, Holds: &n, Taken: &taken, Reasons: []reason{{term.Brief(hostile, 200), 9}},
			Route: []inspect.Finding{{Seen: hostile, Fix: hostile}}},
		Limits: []limitSeen{{1, hostile}, {2, hostile}},
	}
	s.Dead.judge()
	for _, width := range []int{0, 1, 20, 200} {
		for _, text := range term.Fitted(s.text(), width, 0, false) {
			if i := strings.IndexFunc(text, func(r rune) bool { return r < ' ' || r >= 0x7f && r < 0xa0 || r == '\u202e' || r == '\ufffd' }); i >= 0 {
				t.Errorf("at width %d: %q", width, text)
			}
			if width > 0 && len([]rune(text)) > width {
				t.Errorf("wider than %d: %q", width, text)
			}
		}
	}
}

// TestStandingText shows the whole once.
func TestStandingText(t *testing.T) {
	unacked, holds := 1, 2
	s := standing{
		Time: noon, VHost: "/", Queue: "orders", Ready: 37, Consumers: 2, Unacked: &unacked, Rates: &rates{12, 3.14, 3},
		Limit:   &override{MaxRetries: 5, note: note{By: "jo@desk", At: earlierBy(time.Hour), Reason: "supplier down"}},
		Blocked: 5,
		Blocking: []blocking{
			{ID: "17", State: blockWaits, Attempt: 3, Of: 6, Since: earlierBy(4 * time.Minute), NextTry: noon.Add(12 * time.Second), Failures: 2, LastError: "no stock", Holder: "web-1, pid 42"},
			{ID: "18", State: blockRunsAlone, Attempt: 2, Of: 6, Since: earlierBy(time.Minute), Running: earlierBy(20 * time.Second), Crashes: 1, Suspect: true, LastError: "process died", Holder: "web-2, pid 7"},
			{ID: "19", State: blockReady, Attempt: 2, Since: earlierBy(2 * time.Second), Failures: 1},
			{ID: "20", State: blockRuns, Attempt: 1, Of: 6, Since: earlierBy(time.Second), Running: earlierBy(time.Second)},
		},
		Dead: deadLetters{Count: 9, Since: earlierBy(24 * time.Hour), Queue: "orders.dlq", Holds: &holds, Reasons: []reason{{"no stock", 3}},
			Replayed: 4, Waiting: 2, seen: true, Route: []inspect.Finding{{Seen: "no exchange \"x\"", Fix: "declare it"}}},
		Limits: []limitSeen{{3, "web-1, pid 42"}, {100, "web-2, pid 7"}},
	}
	s.Dead.explain()
	s.Dead.judge()
	want := `12:00:00Z  orders in virtual host /
depth      37 ready, 1 unacked, 2 consumers
rates      12.0/s in, 3.1/s out, 3.0/s acked
limit      5 retries, set 2026-11-21T11:00:00Z by jo@desk: supplier down
limit      consumers of one queue disagree on MaxRetries: 3 (web-1, pid 42), 100 (web-2, pid 7)
blocking   5 messages
  17
      attempt 3 of 6, next try in 12s, failing for 4m
      no stock
      last with web-1, pid 42
  18
      attempt 2 of 6, running alone for 20s, failing for 60s, suspect
      process died
      with web-2, pid 7
  19
      attempt 2, next try now, failing for 2s
  20
      attempt 1 of 6, running for 1s
  and 1 more
dead       5 of 9 since 2026-11-20 12:00:00Z
           orders.dlq holds 2, 2 waiting in the source queue for the dead-letter route, 4 replayed or dropped
missing    1: taken out unseen, or by a command that was killed; expired; or lost
route      no exchange "x"; to fix: declare it
           the broker retries what waits about every 3 minutes
        3  no stock
        2  without a known reason: the record expired, or was not read`
	if diff := cmp.Diff(want, strings.Join(term.Fitted(s.text(), 0, 0, false), "\n")); diff != "" {
		t.Error(diff)
	}
}
