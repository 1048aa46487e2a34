package console

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/ops"
)

// pages are the addresses of all pages that only read.
func pages() []string {
	return []string{"/", "/" + link("", "find", hostile)[2:], query("queue"), query("doctor"), query("audit"),
		query("dead"), query("dead", "error", hostile), query("message", "id", hostile), query("replay", "error", hostile),
		query("drop"), "/" + link("live", "screen", "dead", "queue", "orders"), "/live?screen=queues", "/doctor",
		"/live?screen=doctor", "/" + link("live", "screen", "queue", "queue", "orders")}
}

func TestHostileStrings(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	f.fail(t, hostile)
	f.broker.found = []inspect.Finding{{Code: "x", Severity: inspect.Error, Seen: hostile, Impact: hostile, Fix: hostile,
		Commands: []string{hostile}, Repair: hostile}}
	if err := f.store.Audit(t.Context(), "/", "orders", counter.AuditEntry{Actor: hostile, Verb: hostile, Subject: hostile,
		Reason: hostile, Result: hostile}); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"reset", "skip", "limit", "pause"} {
		checkPage(t, f, query("change", "verb", verb, "id", hostile))
	}
	for _, path := range pages() {
		checkPage(t, f, path)
	}
}

// checkPage looks for text that a browser or a reader might obey.
func checkPage(t *testing.T, f *fixture, path string) string {
	t.Helper()
	w := f.get(path)
	body := w.Body.String()
	if w.Code != http.StatusOK {
		t.Errorf("%s: %d: %.300s", path, w.Code, body)
	}
	for _, bad := range []string{"<script>alert", `\u003cscript\u003ealert`, "\x00", "\x1b", "\u202e", "\xff",
		`"'&` + "\x00"} {
		if strings.Contains(body, bad) {
			t.Errorf("%s has %q", path, bad)
		}
	}
	return body
}

func TestChanges(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs(), Actor: "ann"})
	f.fail(t, "m-1")
	why := func(more ...string) url.Values {
		form := url.Values{"why": {"the bank is back"}}
		for i := 0; i+1 < len(more); i += 2 {
			form.Set(more[i], more[i+1])
		}
		return form
	}
	for _, tt := range []struct {
		path string
		form url.Values
		says string
	}{
		{query("change", "verb", "limit", "id", "m-1"), why("number", "3"),
			"m-1: set to 3 retries (4 attempts)"},
		{query("change", "verb", "limit", "id", "m-1", "undo", "1"), why(), "m-1: cleared"},
		{query("change", "verb", "limit", "id", "m-1", "undo", "1"), why(), "No limit of its own is set"},
		{query("change", "verb", "limit"), why("number", "9"), "orders: set to 9 retries (10 attempts)"},
		{query("change", "verb", "limit", "undo", "1"), why(), "orders: cleared"},
		{query("change", "verb", "limit", "undo", "1"), why(), "No limit is set"},
		{query("change", "verb", "pause"), why(), "orders: paused"},
		{query("change", "verb", "pause"), why(), "orders: is paused already"},
		{query("change", "verb", "pause", "undo", "1"), why(), "orders: resumed"},
		{query("change", "verb", "pause", "undo", "1"), why(), "is not paused"},
		{query("change", "verb", "reset", "id", "m-1"), why(), "m-1: forgotten (1 failed attempt"},
		{query("change", "verb", "reset", "id", "m-1"), why(), "Nothing is counted of message"},
		{query("change", "verb", "limit", "id", "m-2"), why("number", "3"),
			"it has not failed yet, or its failures did not count: nothing changed"},
	} {
		body := f.follow(t, f.post(tt.path, tt.form))
		if !strings.Contains(body, tt.says) {
			t.Errorf("%s: does not say %q: %s", tt.path, tt.says, body)
		}
	}
	f.fail(t, "m-3")
	says(t, f.follow(t, f.post(query("change", "verb", "skip", "id", "m-3"), why())), "m-3: skipped")
	says(t, f.follow(t, f.post(query("change", "verb", "skip", "id", "m-3"), why())), "m-3: was skipped before")
	log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 100)
	// What changed nothing is not in the audit.
	if err != nil || len(log) != 8 || log[0].Actor != "ann" || log[0].Reason != "the bank is back" ||
		log[0].Verb != "skip" {
		t.Errorf("audit %v, %v", log, err)
	}
	answers(t, f.post(query("change", "verb", "pause"), url.Values{}), http.StatusUnprocessableEntity,
		"Say why you do it")
}

// TestSeveral: the messages that a visitor selects are shown, changed and kept in the audit one by one, with the
// reason. No other message is.
func TestSeveral(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs(), Actor: "ann"})
	f.fail(t, hostile)
	f.fail(t, "m-2")
	f.fail(t, "m-3")
	at := query("change", "verb", "skip") + "&pick-id=" + url.QueryEscape(url.QueryEscape(hostile)) + "&pick-id=m-2"
	body := checkPage(t, f, at)
	says(t, body, "2 messages of orders", "m-2: would be skipped (1 failed attempt)", "Skip 2 messages", ">Cancel<")
	broken := query("change", "verb", "limit") + "&pick-id=%25zz"
	answers(t, f.post(broken, url.Values{"number": {"0"}, "why": {"y"}}), http.StatusUnprocessableEntity)
	answers(t, f.post(at, url.Values{}), http.StatusUnprocessableEntity)
	answers(t, f.post(at, url.Values{"why": {"they wait for each other"}}), http.StatusSeeOther)
	for id, want := range map[string]bool{hostile: true, "m-2": true, "m-3": false} {
		all, err := f.store.Get(t.Context(), "/", "orders", id)
		if err != nil || len(all) != 1 || (all[0].State == counter.StateSkip) != want {
			t.Errorf("%q: %+v, %v", id, all, err)
		}
	}
	log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10)
	if err != nil || len(log) != 2 || log[0].Subject != "m-2" || log[1].Reason != "they wait for each other" {
		t.Errorf("audit %+v, %v", log, err)
	}
	two := "/" + link("change", "verb", "pause") + "&pick-queue=orders&pick-queue=bills"
	if w := f.post(two, url.Values{"why": {"a deploy"}}); w.Code != http.StatusSeeOther ||
		!strings.HasPrefix(w.Header().Get("Location"), "./?result=") {
		t.Errorf("status %d, to %q", w.Code, w.Header().Get("Location"))
	}
	for _, queue := range []string{"orders", "bills"} {
		now, err := f.store.State(t.Context(), "/", queue)
		if err != nil || now.Paused == nil || now.Paused.Why != "a deploy" {
			t.Errorf("%s: %+v, %v", queue, now.Paused, err)
		}
	}
	for at, want := range map[string]int{
		query("change", "verb", "skip"): http.StatusUnprocessableEntity, "/change?verb=pause": http.StatusUnprocessableEntity,
		"/change?verb=limit&queue=a&queue=b":           http.StatusUnprocessableEntity,
		"/change?verb=limit&queue=a&of=messages":       http.StatusUnprocessableEntity,
		"/change?verb=resume&queue=orders&queue=bills": http.StatusOK,
	} {
		if w := f.get(at); w.Code != want {
			t.Errorf("%s: %d, want %d", at, w.Code, want)
		}
	}
}

// TestSeveralAreReadTogether: each search for a message reads the names of all records, which may be 100,000.
func TestSeveralAreReadTogether(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	var reads atomic.Int64 // of sets
	f.redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if strings.HasPrefix(command, "Z") {
			reads.Add(1)
		}
		return false
	})
	for i := range 40 {
		f.fail(t, fmt.Sprint("m-", i))
	}
	took := func(n int) int64 {
		at := query("change", "verb", "limit")
		for i := range n {
			at += fmt.Sprint("&pick-id=m-", i)
		}
		before := reads.Load()
		checkPage(t, f, at)
		return reads.Load() - before
	}
	if two, forty := took(2), took(40); two == 0 || forty > two+10 { // the console takes its samples meanwhile
		t.Errorf("a page of 2 messages reads sets %d times, of 40 messages %d times", two, forty)
	}
}

// TestPauseOfADoomedQueue: the console asks again before a pause after which the broker deletes a queue, or may. None
// of several queues is paused before the answer.
func TestPauseOfADoomedQueue(t *testing.T) {
	const doomed = "queue bills is auto-delete: the broker deletes it"
	f := newFixture(t, Options{Allow: AllVerbs()}, func(b *fakeBroker) {
		b.deletes = map[string]string{"bills": doomed}
	})
	two := "/" + link("change", "verb", "pause") + "&pick-queue=orders&pick-queue=bills"
	w := f.post(two, url.Values{"why": {"a deploy"}})
	if body := w.Body.String(); w.Code != http.StatusConflict || !strings.Contains(body, "Q"+doomed[1:]) ||
		!strings.Contains(body, `name="anyway"`) || strings.Contains(body, "Queue orders") {
		t.Errorf("status %d: %s", w.Code, body)
	}
	if now, err := f.store.State(t.Context(), "/", "orders"); err != nil || now.Paused != nil {
		t.Errorf("orders: %+v, %v", now.Paused, err)
	}
	away := errors.New("no route to it")
	f.broker.away.Store(&away)
	w = f.post(query("change", "verb", "pause"), url.Values{"why": {"a deploy"}})
	if body := w.Body.String(); w.Code != http.StatusConflict || !strings.Contains(body, "No route to it; if queue") ||
		!strings.Contains(body, " Pause it?") {
		t.Errorf("the broker is away: status %d: %s", w.Code, body)
	}
	f.broker.away.Store(&broker.ErrNotFound)
	answers(t, f.post(query("change", "verb", "pause"), url.Values{"why": {"a deploy"}}), http.StatusSeeOther)
	if now, err := f.store.State(t.Context(), "/", "orders"); err != nil || now.Paused != nil {
		t.Errorf("a queue that does not exist: %+v, %v", now.Paused, err)
	}
	f.broker.away.Store(&away)
	answers(t, f.post(two, url.Values{"why": {"a deploy"}, "anyway": {"1"}}), http.StatusSeeOther)
	if now, err := f.store.State(t.Context(), "/", "bills"); err != nil || now.Paused == nil {
		t.Errorf("bills: %v", err)
	}
}

// TestLimitThatDeadLetters: the console asks again before a limit that dead-letters messages at their next step.
func TestLimitThatDeadLetters(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	f.fail(t, "m-1")
	f.fail(t, "m-2")
	form := url.Values{"why": {"they are too old"}, "number": {"0"}}
	for at, asks := range map[string]string{
		query("change", "verb", "limit"):              "2 messages of queue orders reached this limit already",
		query("change", "verb", "limit", "id", "m-1"): "Message m-1 of queue orders reached this limit already",
	} {
		form.Del("anyway")
		answers(t, f.post(at, form), http.StatusConflict, asks, "would be dead-lettered", `name="anyway"`)
		if l, err := f.store.Limit(t.Context(), "/", "orders"); err != nil || l != nil {
			t.Errorf("%s: limit %v, %v", at, l, err)
		}
		form.Set("anyway", "1")
		answers(t, f.post(at, form), http.StatusSeeOther)
		f.post(query("change", "verb", "limit", "undo", "1"), url.Values{"why": {"again"}})
	}
}

// TestLimitWithoutTheBroker: a limit that cannot be checked is not set.
func TestLimitWithoutTheBroker(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	away := errors.New("no route to it")
	f.broker.away.Store(&away)
	answers(t, f.post(query("change", "verb", "limit"), url.Values{"why": {"r"}, "number": {"9"}}), http.StatusBadGateway,
		"Nothing was changed: no route to it")
	if l, err := f.store.Limit(t.Context(), "/", "orders"); err != nil || l != nil {
		t.Errorf("limit %v, %v", l, err)
	}
}

func TestHeadlines(t *testing.T) {
	now := time.Now()
	ago := func(d time.Duration) ops.Message {
		return ops.Message{ID: "m", State: ops.Ready, Since: now.Add(-d)}
	}
	for want, v := range map[string]queueView{
		"blocked for 12m by 1 message": {Status: ops.Status{Time: now, Retrying: 1,
			Consumers: new(1), Blocking: []ops.Message{ago(12 * time.Minute)}}},
		"blocked for 3m by an exhausted message": {Status: ops.Status{Time: now, Holding: &ops.Holding{
			Since: now.Add(-3 * time.Minute)}, Paused: &counter.Note{At: now.Add(-3 * time.Minute)}}},
		"paused for 3m": {Status: ops.Status{Time: now,
			Paused: &counter.Note{At: now.Add(-3 * time.Minute)}}},
		"paused, but 1 consumer not stopped yet": {Status: ops.Status{Time: now,
			Paused: &counter.Note{}, Processes: []ops.Consumer{{Consumer: "a"}}}},
		"stopped: no consumer, 2 messages ready": {Status: ops.Status{Time: now, Ready: new(2), Consumers: new(0)}},
		"1 dead letter unaccounted for": {Status: ops.Status{Time: now, Consumers: new(1),
			Dead: ops.DeadLetters{Missing: 1, Still: 1}}},
		"nothing blocks it, 1\u202f200 dead letters": {Status: ops.Status{Time: now, Consumers: new(1),
			Dead: ops.DeadLetters{Still: 1200}}},
		"dead-letter route broken: no exchange": {Status: ops.Status{Time: now, Consumers: new(1),
			Findings: []inspect.Finding{{Code: inspect.CodeExchangeMissing, Severity: inspect.Error, Seen: "no exchange"}}}},
		"no dead-letter exchange: rejected messages are lost": {Status: ops.Status{Time: now, Consumers: new(1),
			Findings: []inspect.Finding{inspect.Say(inspect.CodeNoDeadLetterExchange, nil)}}},
		"3 messages waiting, not counted": {Status: ops.Status{Time: now, Consumers: new(2),
			Waiting: []ops.WaitingMessages{{Messages: 1}, {Messages: 2}}}},
		"nothing blocks it": {Status: ops.Status{Time: now, Consumers: new(1)}},
	} {
		if got := headline(v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

// A skip has an operator's reason, which must not read like the error of a handler.
func TestHeadlineOfASkip(t *testing.T) {
	for kind, want := range map[deadletter.Kind]string{
		deadletter.KindFailed:  "q: 1 dead letter, 1 for too late",
		deadletter.KindSkipped: "q: 1 dead letter, 1 for too late (skipped)",
	} {
		v := deadView{Groups: ops.Groups{Count: 1, Groups: []*ops.Group{{Kind: kind, Reason: "too late", Count: 1}}}}
		if got := headlineOfDead("q", v); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}

func TestBrokerAway(t *testing.T) {
	f := newFixture(t, Options{})
	says(t, checkPage(t, f, query("queue")), "orders: blocked for 12m by 1 message")
	away := errors.New("connection refused")
	f.broker.away.Store(&away)
	f.changed("orders")
	body := checkPage(t, f, query("queue"))
	says(t, body, "No answer from the broker", "connection refused", "blocked for 12m")
	f.broker.away.Store(nil)
	if body := checkPage(t, f, query("queue")); strings.Contains(body, "No answer") {
		t.Errorf("back: %s", body)
	}
	store := fmt.Errorf("store: %w", &counter.StoreError{Fault: counter.FaultUnreachable, Err: away})
	f.broker.away.Store(&store)
	f.changed("orders")
	says(t, f.get(query("queue")).Body.String(), "No answer from the store")
}

// TestListWithoutTheStore: an open list stays as it was while the store is away, and says that it is not up to date.
func TestListWithoutTheStore(t *testing.T) {
	f := newFixture(t, Options{})
	f.redis.SetError("down")
	at := "/" + link("live", "screen", "dead", "queue", "orders")
	answers(t, f.get(at), http.StatusOK, `"html":""`, `"trouble":"`, "down")
}

// TestAlarms: the first page shows why the broker blocks publishers or the store refuses writes, and never says that
// nothing is wrong.
func TestAlarms(t *testing.T) {
	f := newFixture(t, Options{}, func(b *fakeBroker) {
		b.alarms = []inspect.Finding{
			inspect.Say(inspect.CodeAlarm+"/memory", inspect.Vars{"nodes": "rabbit@a"}),
			{Code: "store-memory", Severity: inspect.Error, Seen: "the store <b> uses 2 of 2 bytes", Impact: "it refuses writes",
				Fix: "raise maxmemory"},
		}
	})
	body := checkPage(t, f, "/")
	says(t, body, "2 alarms", "the memory alarm is on, on rabbit@a", "the store &lt;b&gt; uses 2 of 2 bytes",
		"raise maxmemory")
	if strings.Contains(body, "Nothing is") {
		t.Errorf("says that nothing is wrong: %s", body)
	}
}

// TestWithoutAReason: where a reason is not known, no colon stands before nothing.
func TestWithoutAReason(t *testing.T) {
	f := newFixture(t, Options{}, func(b *fakeBroker) {
		b.change(func(s *ops.Status) {
			s.Blocking, s.Paused = []ops.Message{{ID: "m"}}, &counter.Note{At: s.Time}
			s.Limit, s.Waiting = &ops.Limit{Attempts: 2}, []ops.WaitingMessages{{Messages: 1, Since: s.Time}}
		})
	})
	for _, path := range []string{"/", query("queue")} {
		body := checkPage(t, f, path)
		if found := regexp.MustCompile(`.*(<bdi></bdi></(p|li|dd)>|: *</bdi>).*`).FindString(body); found != "" {
			t.Errorf("%s: %s", path, found)
		}
	}
}

// TestBlankReasons: a page says that an error of white space only has no text.
func TestBlankReasons(t *testing.T) {
	f := newFixture(t, Options{})
	f.kill(t, " \n\t", "m-1")
	for _, path := range []string{query("dead"), query("queue")} {
		body := checkPage(t, f, path)
		if !strings.Contains(body, "<bdi>"+printable.NoText+"</bdi>") || strings.Contains(body, "<bdi></bdi>") {
			t.Errorf("%s: %s", path, body)
		}
	}
	says(t, checkPage(t, f, query("message", "id", "m-1")), `tabindex="0">`+printable.NoText)
}

// TestBreakerIsShown: the first page and the queue's own say for how long no message has succeeded.
func TestBreakerIsShown(t *testing.T) {
	f := newFixture(t, Options{}, func(b *fakeBroker) {
		b.change(func(s *ops.Status) {
			s.Blocking, s.Breaker = nil, &ops.Breaker{Since: s.Time.Add(-12 * time.Minute), Open: true, Failed: 8}
		})
	})
	for path, want := range map[string]string{
		"/":            "no progress for 12m; 8 messages failed, none succeeded, nothing is counted",
		query("queue"): "orders: no progress for 12m: 8 messages failed, none succeeded",
	} {
		if body := checkPage(t, f, path); !strings.Contains(body, want) || strings.Contains(body, "Nothing is blocked") {
			t.Errorf("%s does not say %q: %s", path, want, body)
		}
	}
}

// TestDeletedQueuesAreForgotten: a console that runs for months beside short-lived queues does not grow.
func TestDeletedQueuesAreForgotten(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := &Console{history: &history{queues: map[string][]sample{}}}
		for _, queue := range []string{"amq.gen-1", "amq.gen-2", "amq.gen-3"} {
			c.history.add(ops.Status{Queue: queue})
			time.Sleep(40 * time.Minute)
			c.sweep()
		}
		if kept := len(c.history.queues); kept != 1 {
			t.Errorf("the samples of %d queues are kept, want 1", kept)
		}
	})
}

func TestUnknownQueuesAreNotKept(t *testing.T) {
	f := newFixture(t, Options{})
	f.broker.away.Store(&broker.ErrNotFound)
	for i := range 50 {
		at := "/" + link("queue", "queue", "q"+strings.Repeat("x", i))
		proctest.Eventually(t, 30*time.Second, "a page that knows of no such queue", func() bool {
			w := f.get(at)
			return w.Code == http.StatusNotFound && strings.Contains(w.Body.String(), "there is no such queue")
		})
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if closed := f.broker.closed.Load(); len(f.queues) > 0 || closed < 50 {
		t.Errorf("%d are kept, and %d of 50 connections are closed", len(f.queues), closed)
	}
}

// TestWrongQueues: RabbitMQ would remove a line break, and examine another queue.
func TestWrongQueues(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	for _, page := range []string{"queue", "doctor", "dead", "change"} {
		for _, name := range []string{"or\nders", "\xff", strings.Repeat("x", 256)} {
			if w := f.get("/" + link(page, "queue", name, "verb", "pause")); w.Code != http.StatusUnprocessableEntity {
				t.Errorf("%s of %.20q: %d", page, name, w.Code)
			}
		}
	}
}

// TestOlderChanges: a later page of the audit does not take its first entry for the last change of the queue.
func TestOlderChanges(t *testing.T) {
	f := newFixture(t, Options{})
	for range auditPage {
		need(t, f.store.Audit(t.Context(), "/", "orders", counter.AuditEntry{Actor: "jo", Verb: "pause"}))
	}
	page := checkPage(t, f, query("audit"))
	says(t, page, "orders: last changed")
	older := regexp.MustCompile(`href="(audit\?before=[^"]*)"`).FindStringSubmatch(page)
	if older == nil {
		t.Fatalf("no link to older changes: %s", page)
	}
	says(t, checkPage(t, f, "/"+strings.ReplaceAll(older[1], "&amp;", "&")), "orders: older changes")
}

func TestAuditFile(t *testing.T) {
	f := newFixture(t, Options{})
	for _, verb := range []string{"pause", "resume"} {
		need(t, f.store.Audit(t.Context(), "/", "orders", counter.AuditEntry{Verb: verb, Reason: hostile}))
	}
	w := f.get(query("audit.ndjson"))
	if n := strings.Count(w.Body.String(), "\n"); n != 2 || !strings.Contains(w.Header().Get("Content-Disposition"),
		"attachment") {
		t.Errorf("%d lines, %v", n, w.Header())
	}
}

// TestHeldQueue: the page names the message that holds its queue, and links the changes that end this, as far as they
// are allowed.
func TestHeldQueue(t *testing.T) {
	for _, tc := range []struct {
		allow []Verb
		links []string
	}{
		{AllVerbs(), []string{"Set its limit", "Reset its count", "Skip it"}},
		{[]Verb{VerbSkip}, []string{"Skip it"}},
		{nil, nil},
	} {
		f := newFixture(t, Options{Allow: tc.allow})
		f.broker.change(func(s *ops.Status) {
			s.Holding = &ops.Holding{ID: hostile, Cause: counter.CauseRejected, Since: s.Time.Add(-12 * time.Minute)}
		})
		body := checkPage(t, f, query("queue"))
		if !strings.Contains(body, "has blocked the queue for 12m: exhausted, rejected") {
			t.Errorf("%v: %s", tc.allow, body)
		}
		for _, text := range []string{"Set its limit", "Reset its count", "Skip it"} {
			if has := strings.Contains(body, text); has != slices.Contains(tc.links, text) {
				t.Errorf("%v: %q: %v", tc.allow, text, has)
			}
		}
	}
}

// TestHeadlineOfAllQueues: an outage comes before queues that are blocked for another reason. Messages that wait
// because their attempts are not counted are failing too.
func TestHeadlineOfAllQueues(t *testing.T) {
	stopped := ops.Status{Queue: "orders", Retrying: 19, Waiting: []ops.WaitingMessages{{Messages: 51}}, StoreSeen: true,
		Breaker: &ops.Breaker{Since: time.Now()}, Dead: ops.DeadLetters{Still: 79}}
	blocked := ops.Status{Queue: "bills", Blocked: time.Minute, Retrying: 1, StoreSeen: true}
	stopped.Dead.Missing, blocked.Dead.Missing = 4, 4 // in one dead-letter queue
	o := ops.Overview{Queues: []ops.Status{stopped, blocked, {Queue: "mails", StoreSeen: true}}, Missing: 5}
	o.Queues[1].Retrying, o.Queues[1].Forgotten = 4, 3
	rows := 0
	for _, q := range o.Queues {
		rows += line{Status: q}.Failing()
	}
	s := sum(o, examination{}, nil)
	if s.Failing != 52 || rows != 52 {
		t.Errorf("%d messages fail, %d in the rows, want 52", s.Failing, rows)
	}
	if got, want := s.headline(o), "1 of 3 queues without progress, 1 blocked, 5 dead letters unaccounted for, "+
		"79 dead letters"; got != want {
		t.Errorf("%q, want %q", got, want)
	}
}

// TestAuditOfNoMessages: a change of no message shows no number of messages, and no reason where none was given.
func TestAuditOfNoMessages(t *testing.T) {
	f := newFixture(t, Options{})
	for _, e := range []counter.AuditEntry{
		{Time: time.Now(), Actor: "jo", Verb: "resume", Result: "done"},
		{Time: time.Now(), Actor: "jo", Verb: "replay", Reason: "the database is back", Result: "done", Count: 80},
	} {
		need(t, f.store.Audit(t.Context(), "/", "orders", e))
	}
	says(t, checkPage(t, f, query("audit")), `data-label="why">–<`, `data-label="messages">–<`,
		`data-label="messages">80<`, "the database is back")
}

// TestAChangeDuringAQuestion: the page after a change shows it, also if the question was under way when it was made.
func TestAChangeDuringAQuestion(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var paused atomic.Bool
		ask := func(context.Context) (bool, error) {
			was := paused.Load()
			time.Sleep(100 * time.Millisecond)
			return was, nil
		}
		asked := newCached(&Console{base: t.Context(), patience: usualPatience}, ask)
		asked.get(t.Context(), 0)
		time.Sleep(liveEvery)
		asked.peek(0) // by an open page
		time.Sleep(50 * time.Millisecond)
		paused.Store(true)
		asked.stale()
		if a := asked.paint(t.Context(), liveEvery); !a.Value {
			t.Error("the page after the change shows the time before it")
		}
		asked.wait.Wait()
	})
}
