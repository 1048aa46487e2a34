package console

import (
	"errors"
	"fmt"
	"html"
	"log/slog"
	"net/http"
	"net/url"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

// kill dead-letters messages: the store gets their tombstones, and the queue the dead letters.
func (f *fixture) kill(t *testing.T, reason string, ids ...string) {
	t.Helper()
	for _, id := range ids {
		m := counter.Message{VHost: "/", Queue: "orders", ID: id}
		if _, err := f.opts.Store.Fail(t.Context(), counter.Attempt{Message: m, Token: "t"},
			counter.Failure{Limit: 1, Reason: reason}); err != nil {
			t.Fatal(err)
		}
		records, err := f.store.Get(t.Context(), "/", "orders", id)
		if err != nil || len(records) != 1 {
			t.Fatal(records, err)
		}
		f.broker.dead.all = append(f.broker.dead.all, deadletter.OfRecord(&records[0]))
	}
}

// ended waits for the job of a queue.
func (f *fixture) ended(t *testing.T) string {
	t.Helper()
	for range 6000 { // a minute
		body := f.get(query("replay", "of", "job")).Body.String()
		if strings.Contains(body, "ended, ") {
			return body
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
	t.Fatal("the job does not end")
	return ""
}

func TestReplayFromFilterToResult(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs(), Actor: "ann"})
	f.kill(t, "the bank is closed", "m-1", "m-2", "m-3")
	f.kill(t, "no such product", "m-4")
	says(t, checkPage(t, f, query("dead")), "orders: 4 dead letters, 3 for the bank is closed")
	replay := query("replay", "error", "bank")
	body := checkPage(t, f, replay)
	says(t, body, "orders: 3 dead letters would be replayed", "m-1", `name="count" value="3"`)
	answers(t, f.post(replay, url.Values{"count": {"3"}}), http.StatusUnprocessableEntity, "Say why you do it")
	answers(t, f.post(replay, url.Values{"count": {"3"}, "why": {"it is open"}, "rate": {"fast"}}),
		http.StatusUnprocessableEntity, "The rate must be a number", `name="why" value="it is open"`,
		`name="rate" value="fast"`)
	says(t, checkPage(t, f, query("replay", "error", "other")), "0 dead letters would be replayed",
		`<a href="doctor?queue=orders">the doctor</a>`)
	body = "after must be a place in the list"
	answers(t, f.get(query("dead", "after", "garbage")), http.StatusUnprocessableEntity, body)
	f.broker.dead.gate = make(chan struct{})
	form := url.Values{"count": {"3"}, "why": {"the bank is open"}}
	w := f.post(replay, form)
	says(t, f.follow(t, w), "replay under way")
	answers(t, f.post(query("replay"), form), http.StatusConflict)
	for range 3 {
		f.broker.dead.gate <- struct{}{}
	}
	says(t, f.ended(t), "3 of 3 replayed")
	log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10)
	if err != nil || len(log) != 2 || log[0].Count != 3 || log[0].Subject != "error=bank" || log[0].Actor != "ann" ||
		log[1].Result != ops.ResultBegun {
		t.Errorf("audit %v, %v", log, err)
	}
}

// TestCountsAfterAChange: no page counts the dead letters that were there before a change.
func TestCountsAfterAChange(t *testing.T) {
	still := func(n int64) func(*ops.Status) { return func(s *ops.Status) { s.Dead.Still = n } }
	f := newFixture(t, Options{}, func(b *fakeBroker) { b.change(still(0)) }) // else the first sample reads the reasons
	f.kill(t, "the bank is closed", "m-1", "m-2")
	f.broker.change(still(2))
	f.changed("orders")
	f.get("/")
	f.causes.stale()
	f.causes.get(t.Context(), 0)
	says(t, checkPage(t, f, query("dead")), "2 dead letters, 2 for the bank is closed")
	says(t, checkPage(t, f, "/"), "2 of 2 died for", "the bank is closed")
	f.broker.change(still(1))
	f.changed("orders")
	says(t, checkPage(t, f, query("queue")), `> dead letter</span>`)
	says(t, checkPage(t, f, "/"), `> dead letter of orders</span>`)
	for _, id := range []string{"m-1", "m-2"} {
		need(t, f.store.NoteRemoved(t.Context(), "/", "orders", []counter.Message{{VHost: "/", Queue: "orders", ID: id}}))
	}
	f.broker.change(still(0))
	f.changed("orders")
	says(t, checkPage(t, f, query("dead")), "the store knows no dead letters")
	if body := checkPage(t, f, "/"); strings.Contains(body, "the bank is closed") {
		t.Errorf("the first page: %s", body)
	}
}

// TestForgedCount: a form cannot have more replayed than there is. The log has the replay, and no error of the audit.
func TestForgedCount(t *testing.T) {
	logged := &journal{}
	f := newFixture(t, Options{Allow: AllVerbs(), Logger: slog.New(slog.NewTextHandler(logged, nil))})
	f.kill(t, "r", "m-1", "m-2", "m-3")
	answers(t, f.post(query("replay", "error", "x"), url.Values{"count": {"3"}, "why": {"r"}}),
		http.StatusUnprocessableEntity)
	f.follow(t, f.post(query("replay", "kind", "failed"), url.Values{"count": {"1000000"}, "why": {"r"}}))
	says(t, f.ended(t), "3 of 3 replayed")
	says(t, logged.String(), `verb=replay queue=orders subject="kind=failed" actor="this machine" reason=r `+
		"result=\"3 of 3 replayed\"\n")
}

// TestReplayOfAnOldPage: a page that was shown before another replay changes nothing, also one that is sent twice.
func TestReplayOfAnOldPage(t *testing.T) {
	f := newFixture(t, dropping(t))
	f.kill(t, "r", "m-1")
	form := func(page string) url.Values {
		last := regexp.MustCompile(`name="last" value="(\d*)"`).FindStringSubmatch(page)
		if last == nil {
			t.Fatalf("the form does not say which replay was the last: %s", page)
		}
		return url.Values{"count": {"1"}, "why": {"r"}, "last": last[1:]}
	}
	for round := range 2 {
		old := form(checkPage(t, f, query("replay", "kind", "failed")))
		f.follow(t, f.post(query("replay", "kind", "failed"), old))
		f.ended(t)
		for _, verb := range []string{"replay", "drop"} {
			w := f.post(query(verb, "kind", "failed"), old)
			answers(t, w, http.StatusConflict, "Another replay or drop of this queue began meanwhile", "1 dead letter would be")
			if form(w.Body.String()).Get("last") == old.Get("last") {
				t.Error("the new page would be refused too")
			}
		}
		if n := len(f.broker.dead.taken); n != round+1 {
			t.Errorf("%d replays, want %d", n, round+1)
		}
	}
}

func TestReplayIsStopped(t *testing.T) {
	for name, by := range map[string]string{"ann": "ann", "": "a visitor"} {
		f := newFixture(t, Options{Allow: AllVerbs(), Authorize: func(*http.Request) (string, Verbs, error) {
			return name, AllVerbs(), nil
		}})
		f.kill(t, "r", "m-1", "m-2", "m-3")
		f.broker.dead.gate = make(chan struct{})
		page := f.follow(t, f.post(query("replay", "kind", "failed"), url.Values{"count": {"3"}, "why": {"r"}}))
		f.broker.dead.gate <- struct{}{}
		answers(t, f.post(query("stop", "begun", "2026-01-02 03:04:05Z"), nil), http.StatusConflict, "none was stopped")
		f.follow(t, f.post("/"+html.UnescapeString(regexp.MustCompile(`stop\?[^"]*`).FindString(page)), nil))
		says(t, f.ended(t), "1 of 3 replayed, stopped by "+by)
	}
}

func TestReplayAfterARestart(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	f.kill(t, "r", "m-1", "m-2")
	f.broker.dead.gate = make(chan struct{})
	f.follow(t, f.post(query("replay", "error", "r"), url.Values{"count": {"2"}, "why": {"why"}}))
	f.broker.dead.gate <- struct{}{}
	need(t, f.Close())
	next := &fixture{newConsole(f.opts, f.broker, f.patience), f.broker, f.redis}
	t.Cleanup(func() { _ = next.Close() })
	f.broker.dead.gate = nil
	says(t, next.get("/"+link("live", "screen", "replay", "queue", "orders", "of", "job")).Body.String(),
		`"html":"","trouble":"the console was started again; reload the page"`)
	body := checkPage(t, next, query("replay"))
	if !strings.Contains(body, "did not report its end") || !strings.Contains(body,
		`href="replay?error=r&amp;queue=orders"`) {
		t.Fatalf("it is not offered to resume: %s", body)
	}
	next.follow(t, next.post(query("replay", "error", "r"), url.Values{"count": {"2"}, "why": {"resumed"}}))
	says(t, next.ended(t), "2 of 2 replayed")
	if body := checkPage(t, next, query("replay")); strings.Contains(body, "did not report its end") {
		t.Errorf("it is offered again: %s", body)
	}
}

func TestDrop(t *testing.T) {
	f := newFixture(t, dropping(t))
	f.kill(t, "r", "m-1", "m-2")
	for _, m := range f.broker.dead.all {
		m.Publishing.MessageId = m.ID
		m.Origin.Exchange, m.Origin.Key = m.Queue, "key"
	}
	f.broker.dead.all[0].Origin.Queue = "orders.3" // a partition of orders
	f.follow(t, f.post(query("drop"), url.Values{"count": {"2"}, "why": {"r"}}))
	says(t, f.ended(t), "2 of 2 dropped")
	file, text := f.dropped(t)
	if want := "m-1 of \"key\"\nm-2 of \"\"\n"; text != want {
		t.Errorf("%q, want %q", text, want)
	}
	o := f.opts
	for _, o.DropDir = range []string{file, filepath.Join(f.opts.DropDir, "missing")} {
		if err := o.validate(); !errors.As(err, new(*FieldError)) {
			t.Errorf("DropDir %s: %v", o.DropDir, err)
		}
	}
}

// TestRefusedAtThePreview: a replay or a drop that would be refused is refused by its preview, which says why.
func TestRefusedAtThePreview(t *testing.T) {
	unsafe := func(b *fakeBroker) { b.dead.refuses = fmt.Errorf("%w to read: a low limit", deadletter.ErrUnsafe) }
	for verb, f := range map[string]*fixture{
		"replay": newFixture(t, dropping(t), unsafe),
		"drop":   newFixture(t, Options{Allow: AllVerbs()}), // without a directory
	} {
		f.kill(t, "r", "m-1")
		want := map[string]string{"replay": "not safe to read: a low limit",
			"drop": "start the console with --drop-dir"}[verb]
		body := checkPage(t, f, query(verb, "kind", "failed"))
		if says(t, body, "A "+verb+" is refused: ", want); strings.Contains(body, `name="why"`) {
			t.Errorf("%s: the page has a form: %s", verb, body)
		}
		w := f.post(query(verb, "kind", "failed"), url.Values{"count": {"1"}, "why": {"r"}})
		if w.Code != http.StatusConflict && w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: the form is answered with %d", verb, w.Code)
		}
	}
}

// TestSharedDeadLetterQueue: the page of a queue leaves the dead letters of other queues where they are.
func TestSharedDeadLetterQueue(t *testing.T) {
	for _, filter := range [][]string{{}, {"error", "r"}, {"id", "m-1"}} {
		f := newFixture(t, dropping(t), func(b *fakeBroker) { b.shared = true })
		f.kill(t, "r", "m-1")
		pay := *f.broker.dead.all[0]
		pay.Queue, pay.Origin.Queue = "pay", "pay"
		f.broker.dead.all = append([]*deadletter.Message{&pay}, f.broker.dead.all...)
		for _, m := range f.broker.dead.all {
			m.Publishing.MessageId = m.Queue
		}
		page := checkPage(t, f, query("drop", filter...))
		if !strings.Contains(page, "orders: 1 dead letter would be dropped") {
			t.Errorf("%q: the preview: %s", filter, page)
		}
		f.follow(t, f.post(query("drop", filter...), url.Values{"count": {"2"}, "why": {"r"}}))
		f.ended(t)
		if _, text := f.dropped(t); text != "orders of \"\"\n" {
			t.Errorf("%q: dropped %q", filter, text)
		}
		f.follow(t, f.post(query("replay", filter...), url.Values{"count": {"2"}, "why": {"r"}}))
		f.ended(t)
		if len(f.broker.dead.taken) != 1 || f.broker.dead.taken[0] != "orders" {
			t.Errorf("%q: replayed of %q", filter, f.broker.dead.taken)
		}
	}
}

func TestBodyIsReadOnlyOnAClick(t *testing.T) {
	f := newFixture(t, Options{})
	f.kill(t, hostile, "m-1")
	m := f.broker.dead.all[0]
	m.Publishing = amqp.Publishing{Headers: amqp.Table{hostile: hostile}, ContentType: hostile,
		Body: []byte(`{"secret":"<script>alert(1)</script>"}`)}
	m.Size = len(m.Publishing.Body)
	where := "Headers and body are in the dead-letter queue."
	body := checkPage(t, f, query("message", "id", "m-1"))
	if strings.Contains(body, "secret") || !strings.Contains(body, where) {
		t.Errorf("it is shown unasked, or is said to be elsewhere: %s", body)
	}
	if body := checkPage(t, f, query("message", "id", "unknown")); strings.Contains(body, where) {
		t.Errorf("a message that did not die is said to be in the dead-letter queue: %s", body)
	}
	body = f.post(query("message", "id", "m-1"), url.Values{}).Body.String()
	if !strings.Contains(body, "secret") || strings.Contains(body, "<script>alert") || strings.Contains(body, "\x1b") {
		t.Errorf("asked for: %s", body)
	}
}

// TestForeignLineage: a dead letter with the headers of another message's replay is not said to come from there.
func TestForeignLineage(t *testing.T) {
	f := newFixture(t, Options{})
	f.kill(t, "no stock", "m-1")
	m := f.broker.dead.all[0]
	m.Publishing.Headers = amqp.Table{deadletter.LineageHeader: amqp.Table{"from": "elsewhere.dlq"}}
	for _, foreign := range []bool{true, false} {
		m.Foreign = foreign
		body := f.post(query("message", "id", "m-1"), url.Values{}).Body.String()
		if strings.Contains(body, "Foreign headers") != foreign || strings.Contains(body, "Where it comes from") == foreign {
			t.Errorf("foreign %v: %s", foreign, body)
		}
	}
}

// TestGroupsArePickedExactly: three groups whose reasons differ in one word each lead to their own dead letters,
// through to the audit.
func TestGroupsArePickedExactly(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	groups := map[string]string{} // key by verb
	for i, verb := range []string{"charge", "refund", "void"} {
		why := verb + " 17: timeout calling acquirer"
		f.kill(t, why, fmt.Sprint(verb, "-1"), fmt.Sprint(verb, "-2"))
		groups[verb] = f.broker.dead.all[2*i].Group()
	}
	page := checkPage(t, f, query("dead"))
	for verb, key := range groups {
		if !strings.Contains(page, key) || !strings.Contains(page, `href="dead?group=`+key) {
			t.Errorf("%s: the page does not lead to the group %s: %s", verb, key, page)
		}
		says(t, checkPage(t, f, query("replay", "group", key)), "2 dead letters would be replayed", verb+"-1")
	}
	f.follow(t, f.post(query("replay", "group", groups["refund"]), url.Values{"count": {"6"}, "why": {"r"}}))
	says(t, f.ended(t), "2 of 2 replayed")
	log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10)
	if err != nil || len(log) != 2 || log[0].Subject != "group="+groups["refund"] {
		t.Errorf("audit %v, %v", log, err)
	}
}

func TestFilters(t *testing.T) {
	f, err := filterOf(url.Values{"error": {"a&b"}, "older": {"2d"}, "id": {" x "},
		"group": {"34fqn6qw"}})
	again, errAgain := subjectOf(f.subject())
	if err != nil || errAgain != nil || again.Link("dead", "q") != f.Link("dead", "q") || f.Older != 48*time.Hour ||
		f.IDs[0] != " x " {
		t.Errorf("%v, %v; %v, %v", f, err, again, errAgain)
	}
	for _, bad := range []url.Values{{"older": {"soon"}}, {"kind": {"x"}}, {"group": {"x"}},
		{"older": {"2h"}, "newer": {"1h"}}, {"error": {" "}}, {"error": {"…"}, "id": {"x"}},
		{"queue": {"q"}, "customer": {"42"}}} {
		if _, err := filterOf(bad); err == nil {
			t.Errorf("%v is taken", bad)
		}
	}
}

// TestNoGetReadsTheQueue: a page reads the dead-letter queue only when a form asks for it.
func TestNoGetReadsTheQueue(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	f.kill(t, "r", "m-1", "m-2")
	for _, path := range []string{
		query("replay"), query("drop"), query("dead"), query("replay", "error", "r"),
		query("message", "id", "m-1"), query("queue"), "/" + link("live", "screen", "dead", "queue", "orders"),
	} {
		if w := f.get(path); w.Code != http.StatusOK {
			t.Errorf("%s: %d", path, w.Code)
		}
	}
	if n := f.broker.dead.browsed.Load(); n > 0 {
		t.Errorf("GETs read the queue %d times", n)
	}
}
