package ops

import (
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/alicebob/miniredis/v2/server"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
)

func TestShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"24h": 24 * time.Hour, "1h5m": 65 * time.Minute, "10m": 10 * time.Minute, "1h0m10s": time.Hour + 10*time.Second,
		"20s": 20 * time.Second, "1.5s": 1500 * time.Millisecond, "1ms": time.Millisecond,
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}

// TestTakingAnOwnLimitBack: a message that is too old for its queue is dead-lettered once it has no limit of its own.
func TestTakingAnOwnLimitBack(t *testing.T) {
	q, c := queueAt(t)
	m := counter.Message{VHost: "/", Queue: "orders", ID: "m"}
	for _, token := range []string{"a", "b"} {
		if _, err := c.Fail(t.Context(), counter.Attempt{Message: m, Token: token}, counter.Failure{Limit: 9}); err != nil {
			t.Fatal(err)
		}
		time.Sleep(10 * time.Millisecond) // the message grows older
	}
	age := time.Millisecond
	if err := q.Store.LimitMessage(t.Context(), m, 50, counter.Note{Why: "y"}); err != nil {
		t.Fatal(err)
	}
	if err := q.Store.SetLimit(t.Context(), "/",
		"orders", counter.Override{MaxAge: &age, Note: counter.Note{Why: "y"}}); err != nil {
		t.Fatal(err)
	}
	for attempts, want := range map[int]int{60: 0, 1: 1, 0: 1} {
		ask, verb := Ask{ID: "m", Note: counter.Note{Why: "y"}}, VerbClearLimit
		if attempts > 0 {
			ask.MaxRetries, verb = new(attempts-1), VerbSetLimit
		}
		plan, err := ChangeOf(verb).Plan(t.Context(), q, ask)
		if l, ok := plan.(*Limit); err != nil || !ok || l.DeadLetters != want {
			t.Errorf("%d attempts: %+v, %v; want %d dead-lettered", attempts, plan, err, want)
		}
	}
}

// TestMaxAgeBesideALimit: a maximal age leaves the limit of the queue as it is, so a message within that limit is not
// dead-lettered by it, whatever the limit of its consumers.
func TestMaxAgeBesideALimit(t *testing.T) {
	q, c := queueAt(t)
	ten := 10
	if err := q.Store.SetLimit(t.Context(), "/", "orders", counter.Override{MaxRetries: &ten,
		Note: counter.Note{Why: "slow"}}); err != nil {
		t.Fatal(err)
	}
	m := counter.Message{VHost: "/", Queue: "orders", ID: "m"}
	for _, token := range []string{"a", "b", "c", "d"} { // its consumer allows three
		r, err := c.Fail(t.Context(), counter.Attempt{Message: m, Token: token}, counter.Failure{Limit: 3})
		if err != nil || r.Code != rules.ReplyRequeue {
			t.Fatal(r, err)
		}
	}
	age := 36 * time.Hour
	plan, err := ChangeOf(VerbSetLimit).Plan(t.Context(), q, Ask{MaxAge: &age, Note: counter.Note{Why: "y"}})
	if err != nil {
		t.Fatal(err)
	}
	if l := plan.(*Limit); l.DeadLetters != 0 || l.Question(1) != "" {
		t.Errorf("%d would be dead-lettered; the command asks %q", l.DeadLetters, l.Question(1))
	}
}

// TestAuditThatCannotBeWritten: the change stands, and the operator learns that the audit log lacks it.
func TestAuditThatCannotBeWritten(t *testing.T) {
	store := miniredis.RunT(t)
	c, err := counter.Dial("redis://"+store.Addr(), nil)
	need(t, err)
	defer c.Close()
	store.SetError("OOM command not allowed")
	q, warned := &Queue{Store: c.Admin(), VHost: "/", Name: "orders"}, error(nil)
	q.Warn = func(err error) { warned = err }
	q.Audit(t.Context(), counter.AuditEntry{Verb: VerbPause}, nil)
	if warned == nil || !strings.HasPrefix(warned.Error(), "the audit log lacks this pause: ") {
		t.Errorf("warned of %v", warned)
	}
	warned = nil
	q.Audit(t.Context(), counter.AuditEntry{Verb: VerbReplay, Count: 500}, errors.New("the rest was not replayed"))
	if warned == nil {
		t.Error("no warning that the log lacks the 500 messages that were replayed")
	}
	warned = nil
	q.Audit(t.Context(), counter.AuditEntry{Verb: VerbPause}, errors.New("the pause itself was refused"))
	if warned != nil {
		t.Errorf("the log lacks no change that was not made: %v", warned)
	}
}

// TestPauseBeforeTheStoreFails: if the store fails after the pause, the error begins with "paused", so that the
// operator knows that consumers stop.
func TestPauseBeforeTheStoreFails(t *testing.T) {
	store := miniredis.RunT(t)
	c, err := counter.Dial("redis://"+store.Addr(), nil)
	need(t, err)
	defer c.Close()
	q := &Queue{Store: c.Admin(), VHost: "/", Name: "orders"}
	plan, err := ChangeOf(VerbPause).Plan(t.Context(), q, Ask{Note: counter.Note{Why: "a move"}})
	need(t, err)
	store.Server().SetPreHook(func(to *server.Peer, cmd string, _ ...string) bool {
		lists := strings.HasPrefix(cmd, "Z") && strings.Contains(cmd, "RANGE")
		if lists {
			to.WriteError("OOM command not allowed")
		}
		return lists
	})
	err = plan.Do(t.Context(), q)
	store.Server().SetPreHook(nil)
	now, unread := q.Store.State(t.Context(), "/", "orders")
	if err == nil || !strings.HasPrefix(err.Error(), "paused, but ") || now.Paused == nil || unread != nil {
		t.Errorf("%v; %+v, %v", err, now.Paused, unread)
	}
}

// inDoubt returns a queue in which two messages have failed and none has succeeded.
func inDoubt(t *testing.T) (*counter.Memory, *Queue) {
	t.Helper()
	store := counter.NewMemory(nil)
	for _, id := range []string{"a", "b"} {
		a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: id}, Token: id,
			Progress: rules.Progress{Breaker: 2}}
		_, err := store.Fail(t.Context(), a, counter.Failure{Limit: 4})
		need(t, err)
	}
	return store, &Queue{Store: store.Admin(), VHost: "/", Name: "orders"}
}

// TestResumeOfABreakerThatHasClosed: a resume does nothing to a breaker that a success has closed meanwhile, and
// says so. The audit log has no entry.
func TestResumeOfABreakerThatHasClosed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		store, q := inDoubt(t)
		plan, err := ChangeOf(VerbResume).Plan(t.Context(), q, Ask{})
		if err != nil || !strings.Contains(plan.Text(), "its breaker would be closed") {
			t.Fatalf("%+v, %v", plan, err)
		}
		time.Sleep(time.Second)
		_, err = store.AskBreaker(t.Context(), "/", "orders", rules.Progress{Breaker: 2, Began: time.Now(),
			Ended: time.Now()})
		need(t, err)
		err = plan.Do(t.Context(), q)
		if plan.Text() != "orders: is resumed already" || err != nil {
			t.Errorf("%q, %v", plan.Text(), err)
		}
		if log, err := q.AuditLog(t.Context(), 10); !errors.Is(err, ErrNone) {
			t.Errorf("the audit log: %+v, %v", log, err)
		}
	})
}

// TestResumeIsOneEntry: a resume that ends a pause and closes the breaker is one change in the audit log.
func TestResumeIsOneEntry(t *testing.T) {
	_, q := inDoubt(t)
	need(t, q.Store.Pause(t.Context(), "/", "orders", counter.Note{By: "ann", Why: "a move"}))
	plan, err := ChangeOf(VerbResume).Plan(t.Context(), q, Ask{Note: counter.Note{By: "ben", Why: "moved"}})
	need(t, err)
	need(t, plan.Do(t.Context(), q))
	want := "orders: resumed; it was paused"
	if text := plan.Text(); !strings.HasPrefix(text, want) || !strings.Contains(text, "; its breaker is closed") {
		t.Errorf("got %q", text)
	}
	if log, err := q.AuditLog(t.Context(), 10); err != nil || len(log) != 1 || log[0].Result != ResultDone {
		t.Errorf("the audit log: %+v, %v", log, err)
	}
}

// TestResumeOfAnExhaustedMessage: a resume says that the message for which the queue is paused pauses it again.
func TestResumeOfAnExhaustedMessage(t *testing.T) {
	for id, want := range map[string]bool{"m-1": true, "": false} {
		p := &Pause{Queue: "orders", Note: counter.Note{By: "a consumer", Why: "exhausted"}, Done: true, holding: id}
		got := strings.Contains(p.Text(), "; message m-1 pauses it again unless you decide about it: strikes status orders")
		if got != want {
			t.Errorf("message %q: %s", id, p.Text())
		}
	}
}

// TestErrorOfASkippedMessage: its record has the operator's reason in place of the error.
func TestErrorOfASkippedMessage(t *testing.T) {
	q, c := queueAt(t)
	a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: "m"}, Token: "a"}
	_, err := c.Fail(t.Context(), a, counter.Failure{Limit: 4, Reason: "no stock"})
	need(t, err)
	_, err = q.Store.Skip(t.Context(), a.Message, counter.Note{By: "jo", Why: "cancelled"})
	need(t, err)
	_, err = c.Start(t.Context(), counter.Attempt{Message: a.Message, Token: "b"}, rules.ModeShared, 4)
	need(t, err)
	records, err := q.Message(t.Context(), "m")
	need(t, err)
	got := Of(records[0], nil, time.Now())
	if got.State != DeadLettered || got.LastError != "no stock" || got.Skip == nil || got.Skip.Why != "cancelled" {
		t.Errorf("%+v", got)
	}
}

// TestSkipOfAMovedMessage: its plan says when it returns from a delay queue.
func TestSkipOfAMovedMessage(t *testing.T) {
	q, c := queueAt(t)
	for id, delay := range map[string]rules.Delay{
		"held":  {},
		"moved": {Above: time.Minute, Lease: time.Minute, Body: "1f"},
	} {
		a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: id}, Token: "a", Delay: delay}
		reply, err := c.Fail(t.Context(), a, counter.Failure{Limit: 4, Wait: time.Hour, Reason: "slow"})
		need(t, err)
		made, err := ChangeOf(VerbSkip).Plan(t.Context(), q, Ask{ID: id})
		plan, ok := made.(*Skip)
		if err != nil || !ok {
			t.Fatal(made, err)
		}
		if moved := reply.CopyNumber > 0; moved != (id == "moved") || moved != (time.Until(plan.Due) > 59*time.Minute) {
			t.Errorf("%s: copy number %d, due %v", id, reply.CopyNumber, plan.Due)
		}
	}
}

// TestChangesAtTheSameTime: the operator whose pause or skip came second is told so. Of a pause, also by whom it is, and
// why. The audit log has the first alone.
func TestChangesAtTheSameTime(t *testing.T) {
	for verb, want := range map[string][]string{
		VerbPause: {"is paused already", "by ann: asked by ann"},
		VerbSkip:  {"was skipped before"},
	} {
		q, c := queueAt(t)
		a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: "m"}, Token: "a"}
		_, err := c.Fail(t.Context(), a, counter.Failure{Limit: 4})
		need(t, err)
		var plans []Plan
		for _, by := range []string{"ann", "bob"} {
			plan, err := ChangeOf(verb).Plan(t.Context(), q, Ask{ID: "m", Note: counter.Note{By: by, Why: "asked by " + by}})
			need(t, err)
			plans = append(plans, plan)
		}
		for _, plan := range plans {
			need(t, plan.Do(t.Context(), q))
		}
		for _, text := range want {
			if got := plans[1].Text(); !strings.Contains(got, text) || strings.Contains(plans[0].Text(), text) {
				t.Errorf("%s: ann is told %q, bob %q", verb, plans[0].Text(), got)
			}
		}
		if log, err := q.AuditLog(t.Context(), 10); err != nil || len(log) != 1 || log[0].Actor != "ann" {
			t.Errorf("%s: the audit log: %+v, %v", verb, log, err)
		}
	}
}

// TestPauseBesideForeignKeys: a pause needs its own key alone. So an operator can pause and resume a queue whatever
// another program wrote to the others. It says so if it does not know which consumers have stopped.
func TestPauseBesideForeignKeys(t *testing.T) {
	for _, key := range []string{"limit", "tombstones", "breaker", "dead", "index", "undecodable", "consumers"} {
		store := miniredis.RunT(t)
		c, err := counter.Dial("redis://"+store.Addr(), nil)
		need(t, err)
		defer c.Close()
		q := &Queue{Store: c.Admin(), VHost: "/", Name: "orders"}
		_, err = c.Control(t.Context(), "/", "orders", counter.Reader{Token: "a", Consumer: "host"})
		need(t, err)
		store.Del("strikes:1:{%2F/orders}:" + key)
		_, err = store.Lpush("strikes:1:{%2F/orders}:"+key, "foreign")
		need(t, err)
		for _, verb := range []string{VerbPause, VerbResume} {
			plan, err := ChangeOf(verb).Plan(t.Context(), q, Ask{Note: counter.Note{By: "ann", Why: "a move"}})
			if err != nil {
				t.Errorf("%s: %s: %v", key, verb, err)
				continue
			}
			err = plan.Do(t.Context(), q)
			says := verb == VerbPause && key == "consumers"
			if says != (err != nil) || says && !strings.HasPrefix(err.Error(), "paused, but ") {
				t.Errorf("%s: %s: %v", key, verb, err)
			}
			if now, _ := q.Store.State(t.Context(), "/", "orders"); (now.Paused != nil) != (verb == VerbPause) {
				t.Errorf("%s: after %s: %+v", key, verb, now.Paused)
			}
			if got := plan.Text(); verb == VerbPause && !says && got != "orders: paused; 0 of 1 process stopped" {
				t.Errorf("%s: %q", key, got)
			}
		}
	}
}
