package counter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
)

func TestPauseAndResume(t *testing.T) {
	for _, s := range stores(t) {
		ctx := t.Context()
		if now, err := s.State(ctx, "/", "orders"); now.Paused != nil || err != nil {
			t.Errorf("%s: at first: %v, %v", s.name, now.Paused, err)
		}
		if err := s.Resume(ctx, "/", "orders", Note{}); !errors.Is(err, ErrNotPaused) {
			t.Errorf("%s: resume before a pause: %v", s.name, err)
		}
		if err := s.Pause(ctx, "/", "orders", Note{By: "op"}); err == nil {
			t.Errorf("%s: a pause without a reason is accepted", s.name)
		}
		for range 2 { // again after a resume
			needOf(t, s.name, s.Pause(ctx, "/", "orders", Note{By: "op", Why: "supplier down"}))
			if err := s.Pause(ctx, "/", "orders", Note{By: "other", Why: "other"}); !errors.Is(err, ErrPaused) {
				t.Errorf("%s: a second pause: %v", s.name, err)
			}
			now, err := s.State(ctx, "/", "orders")
			n := now.Paused
			if err != nil || n == nil || n.By != "op" || n.Why != "supplier down" || n.Holding != nil ||
				time.Since(n.At).Abs() > time.Minute {
				t.Fatalf("%s: %+v, %v", s.name, n, err)
			}
			c, err := s.Control(ctx, "/", "orders", Reader{Token: "a", Consumer: "host"})
			if err != nil || !c.Paused || c.Note != n.Note {
				t.Errorf("%s: consumers read %+v, %v", s.name, c, err)
			}
			if now, err := s.State(ctx, "/", "bills"); now.Paused != nil || err != nil {
				t.Errorf("%s: of another queue: %v, %v", s.name, now.Paused, err)
			}
			needOf(t, s.name, s.Resume(ctx, "/", "orders", Note{By: "night"}))
			c, err = s.Control(ctx, "/", "orders", Reader{Token: "a", Consumer: "host"})
			if err != nil || c.Paused || c.Note.By != "night" {
				t.Errorf("%s: after the resume: %+v, %v", s.name, c, err)
			}
		}
	}
}

// TestHoldQueue: a message that holds its queue pauses it, until an operator decides about the message or resumes.
func TestHoldQueue(t *testing.T) {
	for _, s := range stores(t) {
		ctx, held, why := t.Context(), Holding{message("held"), CauseFailed}, Note{By: "op", Why: "why"}
		hold := func(h Holding) {
			t.Helper()
			needOf(t, s.name, s.HoldQueue(ctx, h, Note{By: "host", Why: "a message is exhausted"}))
		}
		wants := func(by string, holding *Holding) {
			t.Helper()
			now, err := s.State(ctx, "/", "orders")
			p := now.Paused
			needOf(t, s.name, err)
			var got string
			var of *Holding
			if p != nil {
				got, of = p.By, p.Holding
			}
			if diff := cmp.Diff(holding, of); got != by || diff != "" {
				t.Errorf("%s: paused by %q, want %q; message -want +got:\n%s", s.name, got, by, diff)
			}
		}
		fails := func(token string) {
			t.Helper()
			a := attempt(held.Message, token)
			a.HoldsQueue = true
			if got := show(s.Fail(ctx, a, Failure{Limit: 1})); !strings.HasPrefix(got, "HELD") {
				t.Errorf("%s: %s", s.name, got)
			}
		}
		hold(held)
		wants("", nil) // no step said so
		hold(Holding{Message: Message{VHost: "/", Queue: "orders"}})
		wants("host", nil)
		needOf(t, s.name, s.Resume(ctx, "/", "orders", why))
		for i, decide := range []func() error{
			func() error { return s.LimitMessage(ctx, held.Message, 9, why) },
			func() error { return s.Reset(ctx, held.Message, why) },
			func() error { return errOf(s.Skip(ctx, held.Message, why)) },
		} {
			fails(fmt.Sprint("t", i))
			hold(held)
			hold(held)
			wants("host", &held)
			mustFail(t, s.Counter, message("other"), fmt.Sprint("t", i))
			needOf(t, s.name, s.Reset(ctx, message("other"), why))
			wants("host", &held)
			needOf(t, s.name, decide())
			wants("", nil)
			hold(held) // late
			wants("", nil)
			needOf(t, s.name, s.Reset(ctx, held.Message, why))
		}
		fails("again")
		hold(held)
		needOf(t, s.name, s.Pause(ctx, "/", "orders", why))
		wants("op", nil)
		needOf(t, s.name, s.Reset(ctx, held.Message, why))
		wants("op", nil)
	}
}

// onceStore takes one Save. Then it is out of reach.
type onceStore struct {
	Store
	saved bool
}

func (s *onceStore) Save(ctx context.Context, of Queue, c Change) (bool, error) {
	if s.saved {
		return false, errors.New("out of reach")
	}
	s.saved = true
	return s.Store.Save(ctx, of, c)
}

// TestDecisionEndsThePauseAtOnce: a step of an operator that fails on its way leaves no queue paused for a message that
// holds it no more.
func TestDecisionEndsThePauseAtOnce(t *testing.T) {
	for _, s := range stores(t) {
		for name, decide := range map[string]func(*Admin, Message) error{
			"limit": func(a *Admin, m Message) error { return a.LimitMessage(t.Context(), m, 9, Note{Why: "why"}) },
			"reset": func(a *Admin, m Message) error { return a.Reset(t.Context(), m, Note{Why: "why"}) },
			"skip":  func(a *Admin, m Message) error { return errOf(a.Skip(t.Context(), m, Note{Why: "why"})) },
		} {
			m := Message{VHost: "/", Queue: name, ID: "1"}
			a := attempt(m, "a")
			a.HoldsQueue = true
			needOf(t, s.name, errOf(s.Fail(t.Context(), a, Failure{Limit: 1})))
			needOf(t, s.name, s.HoldQueue(t.Context(), Holding{m, CauseFailed}, Note{By: "host", Why: "exhausted"}))
			err := decide(Over(&onceStore{Store: s.Counter.store}, &s.Counter.opts).Admin(), m)
			now, failed := s.State(t.Context(), "/", name)
			all, unread := s.Get(t.Context(), "/", name, m.ID)
			needOf(t, s.name, errors.Join(failed, unread))
			if r := all[0]; r.State == StateHeld || now.Paused != nil {
				t.Errorf("%s, %s: %v; the message is %s, and the queue paused: %+v", s.name, name, err, r.State, now.Paused)
			}
		}
	}
}

// TestALateEndReleasesTheQueue: a message holds its queue because of a crash, and the END of that attempt comes late.
// The pause for the message ends. A message that is still held keeps it, and so does an operator.
func TestALateEndReleasesTheQueue(t *testing.T) {
	for _, s := range stores(t) {
		ctx, m := t.Context(), message("held")
		a, b := attempt(m, "a"), attempt(m, "b")
		a.HoldsQueue, b.HoldsQueue = true, true
		for name, tc := range map[string]struct {
			ends   func() error
			paused bool
		}{
			"handled":         {func() error { return s.End(ctx, a, true) }, false},
			"stopped":         {func() error { return s.End(ctx, a, false) }, false},
			"another attempt": {func() error { return s.End(ctx, b, false) }, true},
			"by an operator": {func() error {
				return errors.Join(s.Pause(ctx, "/", "orders", Note{By: "op", Why: "why"}), s.End(ctx, a, true))
			}, true},
			"not its failure": {func() error {
				a := a
				a.Progress = rules.Progress{Breaker: 8}
				return errOf(s.Fail(ctx, a, Failure{Limit: 1, Cause: CauseNotCounted}))
			}, false},
		} {
			needOf(t, s.name, errOf(s.Start(ctx, a, rules.ModeIsolated, 1)))
			needOf(t, s.name, errOf(s.Begun(ctx, a)))
			if got := show(s.Start(ctx, b, rules.ModeIsolated, 1)); !strings.HasPrefix(got, "HELD") {
				t.Fatalf("%s: %s", s.name, got)
			}
			needOf(t, s.name, s.HoldQueue(ctx, Holding{m, CauseCrashed}, Note{By: "host", Why: "a message is exhausted"}))
			needOf(t, s.name, tc.ends())
			now, err := s.State(ctx, "/", "orders")
			needOf(t, s.name, err)
			if paused := now.Paused != nil; paused != tc.paused {
				t.Errorf("%s: %s: paused %t, want %t: %+v", s.name, name, paused, tc.paused, now.Paused)
			}
			if now.Paused != nil {
				needOf(t, s.name, s.Resume(ctx, "/", "orders", Note{}))
			}
			m.Generation += "+" // the next use of the id
			a.Message, b.Message = m, m
		}
	}
}

func TestConsumers(t *testing.T) {
	for _, s := range stores(t) {
		report := func(r Reader) {
			t.Helper()
			needOf(t, s.name, errOf(s.Control(t.Context(), "/", "orders", r)))
		}
		want := func(want ...string) {
			t.Helper()
			now, err := s.State(t.Context(), "/", "orders")
			needOf(t, s.name, err)
			var got []string
			for _, c := range now.Consumers {
				state := fmt.Sprint(c.Paused)
				if c.Breaker {
					state = "breaker"
				}
				got = append(got, c.Consumer+" "+state)
				if time.Since(c.Seen).Abs() > time.Minute {
					t.Errorf("%s: seen %v", s.name, c.Seen)
				}
			}
			if diff := cmp.Diff(want, got); diff != "" {
				t.Errorf("%s: -want +got:\n%s", s.name, diff)
			}
		}
		want()
		report(Reader{Token: "b", Consumer: "host b, pid 1"})
		report(Reader{Token: "a", Consumer: "host a, pid 1"})
		report(Reader{Token: "c", Consumer: "host a, pid 1"}) // another container of that name
		want("host a, pid 1 false", "host a, pid 1 false", "host b, pid 1 false")
		need(t, s.Pause(t.Context(), "/", "orders", Note{Why: "why"}))
		report(Reader{Token: "b", Consumer: "host b, pid 1", Stopped: true})
		report(Reader{Token: "c", Consumer: "host a, pid 1", Left: true})
		want("host a, pid 1 false", "host b, pid 1 true")
		report(Reader{Token: "b", Consumer: "host b, pid 1"})
		want("host a, pid 1 false", "host b, pid 1 false")
		report(Reader{Token: "b", Consumer: "host b, pid 1", Breaker: true})
		want("host a, pid 1 false", "host b, pid 1 breaker")
		report(Reader{Token: "b", Consumer: "host b, pid 1", Breaker: true, Stopped: true})
		for _, change := range []func(context.Context, string, string, Note) error{s.Resume, s.Pause} {
			time.Sleep(2 * time.Millisecond)
			need(t, change(t.Context(), "/", "orders", Note{Why: "why"}))
			want("host a, pid 1 false", "host b, pid 1 false") // which stopped for an earlier pause
		}
		if _, err := s.Control(t.Context(), "/", "orders", Reader{}); err == nil {
			t.Errorf("%s: a reader without a token is accepted", s.name)
		}
	}
}

// TestControlKeysExpire: each read renews a pause; consumers that do not read are forgotten.
func TestControlKeysExpire(t *testing.T) {
	for _, c := range servers(t) {
		a, keys := c.Admin(), c.opts.controlKeys("/", "orders")
		need(t, a.Pause(t.Context(), "/", "orders", Note{Why: "why"}))
		mustDo(t, c.rdb, "PEXPIRE", keys[0], 60000)
		need(t, errOf(c.Control(t.Context(), "/", "orders", Reader{Token: "a"})))
		mustFail(t, c, message("1"), "a")
		need(t, errOf(a.Skip(t.Context(), message("1"), Note{Why: "why"})))
		need(t, a.Audit(t.Context(), "/", "orders", AuditEntry{Verb: "pause"}))
		for key, want := range map[string]time.Duration{keys[0]: rules.PauseTTL, keys[1]: time.Minute,
			keys[2]: skipAnnounced + time.Minute, c.opts.queueKey("/", "orders") + setAudit: auditTTL} {
			if ttl := c.rdb.PTTL(t.Context(), key).Val(); ttl > want || ttl < want-30*time.Second {
				t.Errorf("%s expires in %v, want %v", key, ttl, want)
			}
		}
	}
}

// TestConsumersAfterTheClockWasSetBack: a process that has ended is forgotten a minute later, not when the clock is
// where it was.
func TestConsumersAfterTheClockWasSetBack(t *testing.T) {
	for _, s := range stores(t) {
		of, later := Queue{"/", "orders"}, time.Now().Add(time.Hour)
		_, err := s.Counter.store.Save(t.Context(), of, Change{Sets: []Member{{Set: setConsumers, Name: "0 dead host",
			Score: later.UnixMilli(), Expires: later.Add(time.Hour)}}})
		need(t, err)
		need(t, errOf(s.Control(t.Context(), of.VHost, of.Name, Reader{Token: "a"})))
		if s.Counter.isIn(t, of, setConsumers, "0 dead host", time.Now().Add(time.Minute).UnixMilli()) {
			t.Errorf("%s: a process that has ended is listed as seen an hour from now", s.name)
		}
	}
}

// afterPage is a Store that calls then after each page.
type afterPage struct {
	Store
	then func()
}

func (s afterPage) Page(ctx context.Context, of Queue, set string, after Entry, n int) ([]Entry, error) {
	defer s.then()
	return s.Store.Page(ctx, of, set, after, n)
}

// TestConsumersOfALargeFleet: none is missed that reads its Control while the consumers are listed.
func TestConsumersOfALargeFleet(t *testing.T) {
	store, of, now := newMemoryStore(), Queue{"/", "orders"}, time.Now().UnixMilli()
	read := func(i int, at int64) {
		need(t, errOf(store.Save(t.Context(), of, Change{Sets: []Member{{Set: setConsumers,
			Name: fmt.Sprintf("0 %d host", i), Score: at}}})))
	}
	const all = page + 1
	for i := range all {
		read(i, now-int64(i))
	}
	c := Over(afterPage{store, func() { read(all-1, now+1) }}, nil)
	if now, err := c.Admin().State(t.Context(), of.VHost, of.Name); err != nil || len(now.Consumers) != all {
		t.Errorf("%d of %d, %v", len(now.Consumers), all, err)
	}
}

// TestReadingAPauseSavesNothing: a read of a pause writes none, so the reads of other processes need no repetition.
func TestReadingAPauseSavesNothing(t *testing.T) {
	c, of := NewMemory(nil), Queue{"/", "orders"}
	need(t, c.Admin().Pause(t.Context(), of.VHost, of.Name, Note{Why: "why"}))
	_, before, err := c.Admin().store.Load(t.Context(), of, docPause)
	need(t, err)
	need(t, errOf(c.Control(t.Context(), of.VHost, of.Name, Reader{Token: "a"})))
	_, after, err := c.Admin().store.Load(t.Context(), of, docPause)
	need(t, err)
	if !before[0].Expires.Equal(after[0].Expires) || before[0].Data == "" {
		t.Errorf("the pause was saved: %+v, then %+v", before, after)
	}
}

func TestSkip(t *testing.T) {
	why := Note{By: "op", Why: "known bad"}
	for _, s := range stores(t) {
		ctx, m := t.Context(), message("1")
		if err := errOf(s.Skip(ctx, m, why)); !errors.Is(err, ErrNoRecord) {
			t.Errorf("%s: of a message without a record: %v", s.name, err)
		}
		need(t, errOf(s.Fail(ctx, attempt(m, "a"), Failure{Limit: testLimit, Wait: time.Hour, Reason: "boom"})))
		other := m
		other.Generation = "1@1700000000"
		if err := errOf(s.Skip(ctx, other, why)); !errors.Is(err, ErrNoRecord) {
			t.Errorf("%s: of another generation: %v", s.name, err)
		}
		if before, err := s.Skip(ctx, m, why); before != nil || err != nil {
			t.Errorf("%s: %+v, %v", s.name, before, err)
		}
		before, err := s.Skip(ctx, m, Note{By: "other", Why: "the first note stays"})
		if needOf(t, s.name, err); before == nil || before.By != why.By || before.Why != why.Why || before.At.IsZero() {
			t.Errorf("%s: again: %+v", s.name, before)
		}
		if r := s.look(t, m); r.State != StateSkip || r.Skipped.Why != why.Why || r.Cause != CauseFailed ||
			r.Consumer != "test" {
			t.Errorf("%s: %+v", s.name, r.Record)
		}
		if err := s.LimitMessage(ctx, m, 9, why); !errors.Is(err, ErrOver) {
			t.Errorf("%s: a limit of its own: %v", s.name, err)
		}
		c, err := s.Control(ctx, "/", "orders", Reader{Token: "a"})
		if err != nil || !c.Skips(m) || c.Skips(other) || c.Skips(message("2")) {
			t.Errorf("%s: consumers read %+v, %v", s.name, c, err)
		}
		for range 2 {
			reply, err := s.Start(ctx, attempt(m, "b"), rules.ModeShared, testLimit)
			if err != nil || reply.Code != rules.ReplyExhausted || reply.Cause != CauseSkipped || reply.Reason != why.Why {
				t.Errorf("%s: %+v, %v", s.name, reply, err)
			}
		}
		got := s.look(t, m)
		if got.State != StateDeadLetter || got.Failures != 1 || got.Skipped.By != "op" || got.Cause != CauseSkipped ||
			got.Reason != why.Why || got.tombstones.Count != 1 {
			t.Errorf("%s: %+v, %+v", s.name, got.Record, got.tombstones)
		}
		if err := errOf(s.Skip(ctx, m, why)); !errors.Is(err, ErrOver) {
			t.Errorf("%s: of a dead letter: %v", s.name, err)
		}
	}
}

func TestAuditLog(t *testing.T) {
	for _, s := range stores(t) {
		ctx := t.Context()
		if got, err := s.AuditLog(ctx, "/", "orders", "", 5); len(got) != 0 || err != nil {
			t.Errorf("%s: at first: %v, %v", s.name, got, err)
		}
		for i := range 5 {
			e := AuditEntry{Actor: "op", Verb: "skip", Subject: fmt.Sprint(i, " \x1b\x00\xff"),
				Reason: strings.Repeat("x", 2*MaxReason), Result: "done", Count: int64(i)}
			needOf(t, s.name, s.Audit(ctx, "/", "orders", e))
		}
		var got []string
		before := ""
		for {
			entries, err := s.AuditLog(ctx, "/", "orders", before, 2)
			needOf(t, s.name, err)
			if len(entries) == 0 {
				break
			}
			for _, e := range entries {
				if e.Actor != "op" || e.Verb != "skip" || len(e.Reason) != MaxReason || e.Result != "done" ||
					time.Since(e.Time).Abs() > time.Minute {
					t.Errorf("%s: %+v", s.name, e)
				}
				got, before = append(got, fmt.Sprint(e.Subject, e.Count)), e.ID
			}
		}
		var want []string
		for i := 4; i >= 0; i-- {
			want = append(want, fmt.Sprint(i, " \x1b\x00\xff", i))
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s: -want +got:\n%s", s.name, diff)
		}
		for what, err := range map[string]error{
			"no verb": s.Audit(ctx, "/", "orders", AuditEntry{}),
			"limit 0": errOf(s.AuditLog(ctx, "/", "orders", "", 0)),
			"no id":   errOf(s.AuditLog(ctx, "/", "orders", "x; y", 1)),
		} {
			var refused *FieldError
			if !errors.As(err, &refused) {
				t.Errorf("%s: %s: %v", s.name, what, err)
			}
		}
	}
}

func TestAuditLogIsCapped(t *testing.T) {
	for _, c := range counters(t) {
		a := c.Admin()
		for i := range auditKept + 20 {
			need(t, a.Audit(t.Context(), "/", "orders", AuditEntry{Verb: "skip", Count: int64(i)}))
		}
		got, err := a.AuditLog(t.Context(), "/", "orders", "", auditKept)
		if err != nil || len(got) != auditKept || got[0].Count != auditKept+19 || got[auditKept-1].Count != 20 {
			t.Errorf("%d entries, %v", len(got), err)
		}
	}
}

// TestNewestSkipsAreAnnounced: a reply has the newest skips; consumers were told of the others before.
func TestNewestSkipsAreAnnounced(t *testing.T) {
	for _, c := range counters(t) {
		var last Message
		for i := range 101 {
			last = message(fmt.Sprint(i))
			mustFail(t, c, last, "a")
			need(t, errOf(c.Admin().Skip(t.Context(), last, Note{Why: "why"})))
			time.Sleep(2 * time.Millisecond) // a time of its own
		}
		if r, err := c.Control(t.Context(), "/", "orders", Reader{Token: "a"}); err != nil || !r.Skips(last) ||
			r.Skips(message("0")) {
			t.Errorf("the last of 101 skips is not announced: %v", err)
		}
	}
}

// TestTimesOfTheStoreFitJSON: JSON has no year after 9999, and a document of another program may have one.
func TestTimesOfTheStoreFitJSON(t *testing.T) {
	reader, _ := parseReader(Entry{Name: "0 t c", Score: math.MaxInt64})
	early, _ := parseReader(Entry{Name: "0 t c", Score: math.MinInt64})
	note := parseNote(map[string]string{"at": decimal(math.MaxInt64)})
	for _, v := range []any{reader, early, note} {
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%+v: %v", v, err)
		}
	}
}
