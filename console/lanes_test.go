package console

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/ops"
)

// hold blocks messages of a lane: the first blocks it.
func (f *fixture) hold(t *testing.T, lane string, ids ...string) {
	t.Helper()
	if _, err := f.opts.Store.OwnLanes(t.Context(), "/", "orders", "", "owner"); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		m := counter.Message{VHost: "/", Queue: "orders", ID: id}
		if _, err := f.opts.Store.StepLane(t.Context(), counter.LaneStep{Message: m, Lane: lane, Act: counter.LaneBlock,
			Owner: "owner", Number: int64(i + 1)}); err != nil {
			t.Fatal(err)
		}
		f.broker.dead.all = append(f.broker.dead.all, &deadletter.Message{ID: id})
	}
}

// plan has the fields of the form of a change.
func (f *fixture) plan(t *testing.T, lane string) url.Values {
	t.Helper()
	state, err := f.store.Lane(t.Context(), "/", "orders", lane)
	need(t, err)
	return url.Values{"plan": {state.First().String()}, "why": {"the account is open"}}
}

func TestLaneIsReplayed(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs(), Actor: "ann"})
	f.hold(t, "a1", "m-1", "m-2", "m-3")
	f.broker.change(func(s *ops.Status) { s.BlockedLanes, s.Dead.Blocked = 1, 2 })
	for _, path := range []string{query("queue"), query("lanes"), query("lane", "lane", "a1", "verb", "replay")} {
		says(t, checkPage(t, f, path), "m-1", "a1")
	}
	replay, form := query("lane", "lane", "a1", "verb", "replay"), f.plan(t, "a1")
	answers(t, f.post(replay, url.Values{"plan": form["plan"]}), http.StatusUnprocessableEntity, noReason)
	answers(t, f.post(query("replay"), url.Values{"count": {"1"}}), http.StatusUnprocessableEntity, noReason)
	f.broker.dead.gate = make(chan struct{})
	says(t, f.follow(t, f.post(replay, form)), "lane a1: replay under way")
	answers(t, f.post(replay, form), http.StatusConflict)
	for range 3 {
		f.broker.dead.gate <- struct{}{}
	}
	f.jobs.running.Wait()
	says(t, checkPage(t, f, query("replay", "of", "job")), "lane a1 is released", "3 replayed")
	log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10)
	if err != nil || len(log) != 2 || log[0].Count != 3 || log[0].Subject != "lane a1" || log[0].Verb != "replay" ||
		log[1].Result != ops.ResultBegun || log[0].Reason != "the account is open" {
		t.Errorf("audit %+v, %v", log, err)
	}
	answers(t, f.get(replay), http.StatusNotFound)
}

func TestLaneStaysBlocked(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	f.hold(t, "a1", "m-1", "m-2")
	f.broker.dead.fails = fmt.Errorf("message m-1: %w", deadletter.ErrLaneFailed)
	f.follow(t, f.post(query("lane", "lane", "a1", "verb", "replay"), f.plan(t, "a1")))
	f.jobs.running.Wait()
	body := checkPage(t, f, query("replay", "of", "job"))
	says(t, body, "the lane is still blocked", "failed again", "release the lane without it")
}

// TestLaneIsDropped: a release drops the message that blocks the lane to a file, a drop all of them.
func TestLaneIsDropped(t *testing.T) {
	for _, tt := range []struct {
		verb, result string
		kept         int
	}{{"release", "2 replayed, 1 dropped", 1}, {"drop", "the lane is released, 3 dropped", 3}} {
		f := newFixture(t, dropping(t))
		f.hold(t, "a1", "m-1", "m-2", "m-3")
		path, form := query("lane", "lane", "a1", "verb", tt.verb), f.plan(t, "a1")
		checkPage(t, f, path)
		f.follow(t, f.post(path, form))
		f.jobs.running.Wait()
		says(t, checkPage(t, f, query("replay", "of", "job")), "lane a1 is released", tt.result)
		if _, text := f.dropped(t); strings.Count(text, "\n") != tt.kept {
			t.Errorf("%s: kept %q", tt.verb, text)
		}
		log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10)
		if err != nil || len(log) != 2 || log[0].Verb != tt.verb || log[0].Count != 3 {
			t.Errorf("%s: audit %+v, %v", tt.verb, log, err)
		}
	}
}

// TestLaneOfAnotherPlan: a page that shows another message than the one that blocks the lane now changes nothing.
func TestLaneOfAnotherPlan(t *testing.T) {
	f := newFixture(t, dropping(t))
	f.hold(t, "a1", "m-1", "m-2")
	form := f.plan(t, "a1")
	state, err := f.store.Lane(t.Context(), "/", "orders", "a1")
	need(t, err)
	if _, err := f.store.DropPositions(t.Context(), "/", "orders", "a1", []counter.Position{state.First()}); err != nil {
		t.Fatal(err)
	}
	for _, verb := range []string{"replay", "release", "drop"} {
		w := f.post(query("lane", "lane", "a1", "verb", verb), form)
		if w.Code != http.StatusConflict || !strings.Contains(w.Body.String(), "Another message blocks the lane now") ||
			!strings.Contains(w.Body.String(), "m-2") {
			t.Errorf("%s: %d: %s", verb, w.Code, w.Body)
		}
	}
	if log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10); err != nil || len(log) > 0 {
		t.Errorf("audit %v, %v", log, err)
	}
}

// TestLaneNeedsVerbs: a replay needs replay, a drop needs drop, and a release both.
func TestLaneNeedsVerbs(t *testing.T) {
	for _, tt := range []struct {
		allow                 Verbs
		replay, release, drop int
	}{
		{nil, http.StatusForbidden, http.StatusForbidden, http.StatusForbidden},
		{Verbs{VerbReplay}, http.StatusOK, http.StatusForbidden, http.StatusForbidden},
		{Verbs{VerbDrop}, http.StatusForbidden, http.StatusForbidden, http.StatusOK},
		{Verbs{VerbReplay, VerbDrop}, http.StatusOK, http.StatusOK, http.StatusOK},
	} {
		f := newFixture(t, Options{Allow: tt.allow})
		f.hold(t, "a1", "m-1")
		for verb, want := range map[string]int{"replay": tt.replay, "release": tt.release, "drop": tt.drop,
			"skip": http.StatusUnprocessableEntity} {
			path := query("lane", "lane", "a1", "verb", verb)
			if w := f.get(path); w.Code != want {
				t.Errorf("%v, GET %s: %d, want %d", tt.allow, path, w.Code, want)
			}
			if want == http.StatusOK { // TestLaneIsReplayed and TestLaneIsDropped send it
				continue
			}
			if w := f.post(path, f.plan(t, "a1")); w.Code != want {
				t.Errorf("%v, POST %s: %d, want %d", tt.allow, path, w.Code, want)
			}
		}
		body := checkPage(t, f, query("lanes"))
		for verb, code := range map[string]int{"replay": tt.replay, "release": tt.release, "drop": tt.drop} {
			if strings.Contains(body, "verb="+verb) != (code == http.StatusOK) {
				t.Errorf("%v: the page offers what is forbidden, or not what is allowed: %s", tt.allow, body)
			}
		}
	}
}

func TestOutcomeOfLane(t *testing.T) {
	o := outcomeOfLane(ops.VerbDrop, deadletter.LaneResult{Replayed: 1, Dropped: 3, Missing: 2, Doubles: 1, Released: true,
		Undecided: []string{"m"}})
	want := []string{"the lane is released", "1 replayed", "3 dropped", "2 of them missing, so in no file",
		"1 duplicate taken off", "1 message in the file, but maybe still in the dead-letter queue"}
	if o.Done != 4 || !slices.Equal(o.Parts, want) {
		t.Errorf("%d, %q", o.Done, o.Parts)
	}
	for verb, want := range map[string]string{
		ops.VerbDrop: "0 dropped", ops.VerbRelease: "0 replayed", ops.VerbReplay: "0 replayed",
	} {
		if got := outcomeOfLane(verb, deadletter.LaneResult{}).Parts[1:]; !slices.Equal(got, []string{want}) {
			t.Errorf("%s of no message: %q, want %q", verb, got, want)
		}
	}
}

// TestLaneDropNeedsAFile: without a file for the dropped dead letters none is dropped.
func TestLaneDropNeedsAFile(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	f.hold(t, "a1", "m-1")
	for _, verb := range []string{"release", "drop"} {
		if w := f.post(query("lane", "lane", "a1", "verb", verb), f.plan(t, "a1")); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s: %d, want 422", verb, w.Code)
		}
	}
}

// TestReplayOfBlockedLanes: a replay or drop by filter would lose the order of blocked lanes.
func TestReplayOfBlockedLanes(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	f.kill(t, "no stock", "m-1")
	f.hold(t, "a1", "m-1")
	for _, verb := range []string{"replay", "drop"} {
		if body := checkPage(t, f, query(verb)); !strings.Contains(body, verb+" would lose the order") ||
			strings.Contains(body, "<button>Replay") || strings.Contains(body, "<button>Drop") {
			t.Errorf("preview: %s", body)
		}
		if w := f.post(query(verb), url.Values{"count": {"1"}, "why": {"r"}}); w.Code != http.StatusConflict ||
			!strings.Contains(w.Body.String(), "blocked lane") {
			t.Errorf("%s: %d: %s", verb, w.Code, w.Body)
		}
	}
}

// TestHostileLanes: a lane may be any text, also none.
func TestHostileLanes(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	lanes := []string{hostile, "", strings.Repeat("\u202e<b>", 1024/6), "a\xff\xfe", " a ", "x&lane=y#z"}
	for _, lane := range lanes {
		f.hold(t, lane, hostile)
	}
	f.broker.change(func(s *ops.Status) { s.BlockedLanes = len(lanes) })
	for _, path := range []string{query("queue"), query("lanes"), "/" + link("live", "screen", "lanes", "queue",
		"orders")} {
		checkPage(t, f, path)
	}
	escaped := strings.NewReplacer("&", "&amp;", "+", "&#43;")
	for _, lane := range lanes {
		path := query("lane", "at", "orders", "lane", lane, "verb", "replay")
		says(t, checkPage(t, f, query("lanes")), `href="`+escaped.Replace(path[1:])+`"`)
		checkPage(t, f, path)
		f.follow(t, f.post(path, f.plan(t, lane)))
		f.jobs.running.Wait()
		says(t, checkPage(t, f, query("replay", "of", "job")), "is released")
	}
	checkPage(t, f, query("audit"))
	checkPage(t, f, query("replay"))
}

// TestLanePages: each blocked lane is on one page, longest blocked first.
func TestLanePages(t *testing.T) {
	f := newFixture(t, Options{})
	for i := range lanesPerPage + 1 {
		f.hold(t, fmt.Sprint("lane-", i), "m")
	}
	first, second := checkPage(t, f, query("lanes")), checkPage(t, f, query("lanes", "from", fmt.Sprint(lanesPerPage)))
	rows := func(body string) int { return strings.Count(body, `<th role="rowheader"`) }
	if rows(first) != lanesPerPage || rows(second) != 1 || !strings.Contains(first, "101 blocked lanes") ||
		!strings.Contains(first, "1 to 100 of 101") || !strings.Contains(second, "101 to 101 of 101") {
		t.Errorf("%d and %d rows: %s", rows(first), rows(second), second)
	}
	if body := checkPage(t, f, query("lanes", "from", "9999999")); rows(body) != 0 || !strings.Contains(body,
		"No lane is on this page") {
		t.Errorf("beyond the last: %s", body)
	}
	if body := checkPage(t, f, query("lanes", "from", "-1")); rows(body) != lanesPerPage {
		t.Errorf("before the first: %s", body)
	}
}

// TestLanesOfUnknownPartitions: while the partitions of a queue are not known, any lane may be blocked.
func TestLanesOfUnknownPartitions(t *testing.T) {
	away := errors.New("connection refused")
	f := newFixture(t, Options{Allow: AllVerbs()}, func(b *fakeBroker) { b.away.Store(&away) })
	f.kill(t, "r", "m-1")
	for _, verb := range []string{"replay", "drop"} {
		if w := f.get(query(verb, "kind", "failed")); w.Code != http.StatusBadGateway {
			t.Errorf("GET %s: %d", verb, w.Code)
		}
		if w := f.post(query(verb, "kind", "failed"), url.Values{"count": {"1"}, "why": {"r"}}); !strings.Contains(
			w.Body.String(), "its blocked lanes are not known: connection refused") {
			t.Errorf("POST %s: %d: %s", verb, w.Code, w.Body)
		}
	}
	f.broker.away.Store(nil)
	slow := &fixture{newConsole(f.opts, f.broker, patience{paint: time.Hour, groups: time.Hour, asked: time.Hour}),
		f.broker, f.redis} // no answer comes in time for a page that updates itself
	defer slow.Close()
	if w := slow.get(query("replay", "kind", "failed")); !strings.Contains(w.Body.String(), "1 dead letter would be") {
		t.Errorf("a slow broker: %d: %s", w.Code, w.Body)
	}
	gone := broker.ErrNotFound
	f.broker.away.Store(&gone)
	says(t, f.get(query("replay", "kind", "failed")).Body.String(), "1 dead letter would be")
}

// TestReplayGivesUpNothing: the form of a replay has no field "missing", and a visitor who may only replay must not
// give up messages by sending it.
func TestReplayGivesUpNothing(t *testing.T) {
	r, err := http.NewRequestWithContext(t.Context(), http.MethodPost, query("lane", "lane", "a1", "verb", "replay"),
		strings.NewReader(url.Values{"missing": {"1"}}.Encode()))
	need(t, err)
	r.Header.Set("Content-Type", "application/x-www-form-urlencoded")
	l, err := laneOf(withVisitor(r, visitor{Allowed: Verbs{VerbReplay}}))
	if err == nil && l.Missing {
		t.Error("a replay by a visitor without the verb drop gives up missing messages")
	}
}
