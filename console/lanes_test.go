package console

import (
	"errors"
	"fmt"
	"html/template"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
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
		if _, err := f.opts.Store.StepLane(t.Context(), rules.LaneStep{Message: m, Lane: lane, Act: rules.LaneBlock,
			Owner: "owner", Number: int64(i + 1)}); err != nil {
			t.Fatal(err)
		}
		f.broker.dead.all = append(f.broker.dead.all, &deadletter.Message{ID: id})
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

// TestHostileLanes: the page of a queue shows its blocked lanes. A lane may be any text, also an empty one.
func TestHostileLanes(t *testing.T) {
	f := newFixture(t, Options{})
	lanes := []string{hostile, "", strings.Repeat("\u202e<b>", 1024/6), "a\xff\xfe", " a ", "x&lane=y#z"}
	for _, lane := range lanes {
		f.hold(t, lane, hostile, "m-2")
	}
	f.broker.change(func(s *ops.Status) { s.BlockedLanes, s.Dead.Blocked = len(lanes), int64(len(lanes)) })
	body := checkPage(t, f, query("queue"))
	says(t, body, "6 lanes blocked, with 6 blocked messages", "strikes lane replay orders LANE")
	for _, lane := range lanes {
		says(t, body, "<bdi>"+template.HTMLEscapeString(brief(shown(lane)))+"</bdi>")
	}
}

// TestMostLanes: the page of a queue lists the lanes that are blocked for longest.
func TestMostLanes(t *testing.T) {
	f := newFixture(t, Options{})
	for i := range lanesOfQueue + 1 {
		f.hold(t, fmt.Sprint("lane-", i), "m")
	}
	f.broker.change(func(s *ops.Status) { s.BlockedLanes = lanesOfQueue + 1 })
	body := checkPage(t, f, query("queue"))
	says(t, body, "21 lanes blocked", "These are blocked for longest", "<bdi>lane-0</bdi>")
	if n := strings.Count(body, "<bdi>lane-"); n != lanesOfQueue {
		t.Errorf("%d lanes are listed, want %d: %s", n, lanesOfQueue, body)
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
