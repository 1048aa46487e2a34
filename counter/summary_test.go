package counter

import (
	"errors"
	"fmt"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestSummaries: the queues come in the order asked for, each with its head and its counts.
func TestSummaries(t *testing.T) {
	for _, c := range counters(t) {
		a := c.Admin()
		fail := func(queue, id string, f Failure) {
			t.Helper()
			m := message(id)
			m.Queue = queue
			need(t, errOf(c.Fail(t.Context(), attempt(m, "a"), f)))
		}
		fail("orders", "old", again)
		c.age(t, time.Minute, Message{VHost: "/", Queue: "orders", ID: "old"})
		fail("orders", "new", again)
		fail("orders", "dead", reject)
		fail("orders", "forgotten", again)
		c.age(t, time.Hour, Message{VHost: "/", Queue: "orders", ID: "forgotten"})
		fail("idle", "gone", again)
		c.age(t, time.Hour, Message{VHost: "/", Queue: "idle", ID: "gone"})
		need(t, a.SetLimit(t.Context(), "/", "idle", Override{MaxRetries: new(5), Note: Note{Why: "a test"}}))
		need(t, c.NoteUndecodable(t.Context(), "/", "idle", "deep"))
		need(t, a.Pause(t.Context(), "/", "idle", Note{Why: "a bug"}))
		if c.rdb != nil {
			mustDo(t, c.rdb, "SET", c.opts.keys(Message{VHost: "/", Queue: "foreign"}).index, "no set")
		}
		for i, h := range []Waiting{{Messages: 2, For: time.Minute, Why: "503"}, {Messages: 3, For: time.Hour,
			Why: "out of reach"}, {}} {
			need(t, errOf(c.Control(t.Context(), "/", "idle", Reader{Token: fmt.Sprint("reader", i), Consumer: "host",
				Waiting: h})))
		}
		got, err := a.Summaries(t.Context(), "/", []string{"orders", "none", "foreign", "idle"}, time.Minute)
		need(t, err)
		orders, none, foreign, idle := got[0], got[1], got[2], got[3]
		if orders.Retrying != 3 || orders.Forgotten != 1 || orders.Recent != 1 || orders.Tombstones.Count != 1 ||
			orders.Head == nil || orders.Head.ID != "old" {
			t.Errorf("orders: %+v, head %+v", orders, orders.Head)
		}
		alone, err := a.Summary(t.Context(), "/", "orders", time.Minute)
		if err != nil || len(alone.Records) != 3 || alone.Recent != 1 || orders.Records != nil {
			t.Errorf("alone: %+v, %v", alone, err)
		}
		if _, err := a.Summary(t.Context(), "/", "foreign", time.Minute); errors.Is(err, ErrForeign) != (c.rdb != nil) {
			t.Errorf("foreign: %v", err)
		}
		if none.Retrying != 0 || none.Head != nil || none.Override != nil || none.Undecodable != "" || none.Err != nil ||
			none.Time.IsZero() {
			t.Errorf("none: %+v", none)
		}
		if errors.Is(foreign.Err, ErrForeign) != (c.rdb != nil) || foreign.Queue != "foreign" {
			t.Errorf("foreign: %+v", foreign)
		}
		if idle.Retrying != 1 || idle.Forgotten != 0 || idle.Head.ID != "gone" ||
			idle.Override.Limit() != 6 || idle.Undecodable != "deep" || idle.Paused == nil || idle.Paused.Why != "a bug" ||
			orders.Paused != nil {
			t.Errorf("idle: %+v", idle)
		}
	}
}

// TestSummariesReadPages: the head is found behind records that were written later, up to a bound.
func TestSummariesReadPages(t *testing.T) {
	for _, c := range counters(t) {
		write := func(id string, f Failure) {
			t.Helper()
			need(t, errOf(c.Fail(t.Context(), attempt(message(id), "a"), f)))
		}
		head := message("head")
		write("head", again)
		c.age(t, time.Minute, head)
		for set, f := range map[string]Failure{setDead: reject, setIndex: again} {
			write(set, f)
			for n := 0; n < longPage; n += longPage / 4 {
				c.copyRecord(t, message(set), set, n, n+longPage/4)
			}
		}
		// the index has whole milliseconds: the head is the last one for certain
		last := Member{Set: setIndex, Name: member(head.ID, ""), Score: time.Now().Add(c.TTL() - time.Hour).UnixMilli()}
		need(t, errOf(c.store.Save(t.Context(), Queue{"/", head.Queue}, Change{Sets: []Member{last}})))
		got, err := c.Admin().Summaries(t.Context(), head.VHost, []string{head.Queue}, time.Hour/2)
		if err != nil || got[0].Head == nil || got[0].Head.ID != "head" || got[0].Recent != longPage+1 ||
			got[0].Retrying != longPage+2 || got[0].Partial {
			t.Errorf("got %+v, %v", got, err)
		}
	}
}

// copyRecord saves the record of a message, which is in a set, as those of other messages, each named by a number.
func (c *Counter) copyRecord(t *testing.T, m Message, set string, from, to int) {
	t.Helper()
	of := Queue{m.VHost, m.Queue}
	_, docs, err := c.store.Load(t.Context(), of, docRecord(member(m.ID, "")))
	need(t, err)
	var some Change
	for n := from; n < to; n++ {
		name := member(fmt.Sprint(m.ID, n), "")
		some.Docs = append(some.Docs, Doc{Name: docRecord(name), Data: docs[0].Data, Expires: docs[0].Expires, Any: true})
		some.Sets = append(some.Sets, Member{Set: set, Name: name, Score: docs[0].Expires.UnixMilli()})
	}
	need(t, errOf(c.store.Save(t.Context(), of, some)))
}

// TestSummariesReadFewDeadLetters: 10,000 dead letters and 10,000 records of one queue are read at most. They are a
// part of them only if there are more.
func TestSummariesReadFewDeadLetters(t *testing.T) {
	servertest.Long(t)
	for _, s := range storesForLong(t) {
		c := s.Counter
		for set, end := range map[string]Failure{setDead: reject, setIndex: again} {
			first := message("0")
			first.Queue = "q-" + set
			need(t, errOf(c.Fail(t.Context(), attempt(first, "a"), end)))
			for n := 1; n < summaryMost; n += 303 {
				c.copyRecord(t, first, set, n, n+303)
			}
			for _, partial := range []bool{false, true} {
				got, err := c.Admin().Summaries(t.Context(), "/", []string{first.Queue}, time.Hour)
				if err != nil || got[0].Recent+got[0].Retrying != summaryMost || got[0].Partial != partial {
					t.Errorf("%s, %s: %+v, %v; want %d, and that they are a part: %v", s.name, set, got, err, summaryMost, partial)
				}
				c.copyRecord(t, first, set, summaryMost, summaryMost+1)
			}
		}
	}
}

// TestSummariesPassOverMovedMessages: a message that waits in a delay queue keeps none waiting, so it is the head only
// alone.
func TestSummariesPassOverMovedMessages(t *testing.T) {
	for _, c := range counters(t) {
		head := func() string {
			t.Helper()
			got, err := c.Admin().Summaries(t.Context(), "/", []string{"orders"}, time.Minute)
			if err != nil || got[0].Head == nil {
				t.Fatalf("%+v, %v", got, err)
			}
			return got[0].Head.ID
		}
		a := attempt(message("moved"), "a")
		a.Delay = rules.Delay{Above: time.Minute, Lease: time.Minute, Body: "b"}
		if reply, err := c.Fail(t.Context(), a, Failure{Limit: 4, Reason: "x", Wait: time.Hour}); err != nil ||
			reply.Code != rules.ReplyMove {
			t.Fatalf("%+v, %v", reply, err)
		}
		if got := head(); got != "moved" {
			t.Errorf("alone: %q", got)
		}
		need(t, errOf(c.Fail(t.Context(), attempt(message("held"), "b"), again)))
		if got := head(); got != "held" {
			t.Errorf("beside another: %q", got)
		}
	}
}

func TestIsRetried(t *testing.T) {
	for name, tc := range map[string]struct {
		r    Record
		want bool
	}{
		"failed":               {Record{Failures: 1}, true},
		"crashed":              {Record{Crashes: 1}, true},
		"runs again":           {Record{OpenToken: "a"}, true},
		"stopped":              {Record{Starts: 1}, false},
		"dead-lettered":        {Record{State: StateDeadLetter, Failures: 4}, false},
		"handled":              {Record{State: StateDone, Failures: 1}, false},
		"skipped":              {Record{State: StateSkip, Failures: 1}, true},
		"made clean by an op.": {Record{Reset: Note{Why: "x"}}, false},
	} {
		if got := isRetried(tc.r); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestSummariesForgetNothingThatRests: an attempt that is not counted writes no record, so an old one says nothing
// while consumers hold messages.
func TestSummariesForgetNothingThatRests(t *testing.T) {
	for _, c := range counters(t) {
		breaker := func(of func(now time.Time) Breaker) func(string) error {
			return func(queue string) error {
				_, err := c.changeBreaker(t.Context(), "/", queue, func(b *BreakerState) bool {
					b.Breaker = of(b.Now)
					return true
				})
				return err
			}
		}
		for _, tt := range []struct {
			queue string
			set   func(queue string) error
			want  int
		}{
			{"nothing", func(string) error { return nil }, 1},
			{"paused", func(queue string) error { return c.Admin().Pause(t.Context(), "/", queue, Note{Why: "a bug"}) }, 0},
			{"waiting", func(queue string) error {
				_, err := c.Control(t.Context(), "/", queue, Reader{Token: "reader", Consumer: "host",
					Waiting: Waiting{Messages: 1, For: time.Hour, Why: "503"}})
				return err
			}, 0},
			{"doubt", breaker(func(now time.Time) Breaker { return Breaker{Doubt: now} }), 0},
			{"open", breaker(func(now time.Time) Breaker { return Breaker{Open: now.Add(-time.Hour)} }), 0},
			{"closed", breaker(func(now time.Time) Breaker { return Breaker{Closed: now} }), 0},
			{"closed before", breaker(func(now time.Time) Breaker { return Breaker{Closed: now.Add(-time.Hour)} }), 1},
		} {
			m := Message{VHost: "/", Queue: tt.queue, ID: "old"}
			need(t, errOf(c.Fail(t.Context(), attempt(m, "a"), again)))
			c.age(t, time.Hour, m)
			need(t, tt.set(tt.queue))
			got, err := c.Admin().Summaries(t.Context(), "/", []string{tt.queue}, time.Minute)
			if err != nil || got[0].Retrying != 1 || got[0].Forgotten != tt.want {
				t.Errorf("%s: %+v, %v; want %d forgotten", tt.queue, got, err, tt.want)
			}
		}
	}
}

// TestSummariesCountUndecodable: a tombstone that cannot be decoded is one of those that were read.
func TestSummariesCountUndecodable(t *testing.T) {
	c, of := Over(newMemoryStore(), nil), Queue{"/", "orders"}
	need(t, errOf(c.Fail(t.Context(), attempt(message("0"), "a"), reject)))
	c.copyRecord(t, message("0"), setDead, 1, summaryMost+1)
	other := Change{Docs: []Doc{{Name: docRecord(member("01", "")), Data: "x", Any: true}}}
	need(t, errOf(c.store.Save(t.Context(), of, other)))
	got, err := c.Admin().Summaries(t.Context(), "/", []string{"orders"}, time.Hour)
	if err != nil || !got[0].Partial || got[0].Recent != summaryMost-1 {
		t.Errorf("got %+v, %v; want a part, with %d", got, err, summaryMost-1)
	}
}
