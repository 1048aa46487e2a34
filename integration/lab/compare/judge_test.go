package compare

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/internal/audit"
	"github.com/strikesmq/strikes/internal/servertest"
)

var noon = time.Date(2026, 1, 1, 12, 0, 0, 0, time.UTC)

// happen makes a history of the events in what, a millisecond apart: "fail a", "copied a1" for the first copy of it,
// and so on. The messages are published first.
func happen(do map[string]string, what ...[2]string) []audit.Event {
	var events []audit.Event
	for seq, id := range []string{"a", "b", "c"} {
		if do[id] != "" {
			events = append(events, audit.Event{Kind: audit.Published, ID: id, Seq: seq + 1, Do: do[id]})
		}
	}
	for i, w := range what {
		e := audit.Event{At: noon.Add(time.Duration(i) * time.Millisecond), Kind: audit.Kind(w[0]),
			ID: strings.TrimRight(w[1], "12")}
		e.Copy = w[1][len(e.ID):]
		switch w[0] {
		case "ok":
			e.Kind, e.Outcome = audit.Ended, audit.OK
		case "copied":
			e.Token = map[string]string{"1": "", "2": "1"}[e.Copy]
		case "fail":
			e.Kind, e.Outcome = audit.Ended, audit.Failed
		}
		events = append(events, e)
	}
	return events
}

// TestJudgeFindsEachLoss shows the judge histories in which one thing went wrong, and some in which nothing did.
func TestJudgeFindsEachLoss(t *testing.T) {
	servertest.Long(t)
	healthy, failing := map[string]string{"a": audit.Succeed}, map[string]string{"a": audit.Poison}
	once := [][2]string{{"began", "a"}, {"fail", "a"}}
	twice := append(once, once...)
	for name, tc := range map[string]struct {
		do   map[string]string
		what [][2]string
		want verdict
	}{
		"handled": {healthy, [][2]string{{"began", "a"}, {"ok", "a"}}, verdict{}},
		"handled by the process that died, then again": {healthy, [][2]string{{"began", "a"}, {"began", "a"}, {"ok", "a"}},
			verdict{}},
		"lost before an attempt": {healthy, nil, verdict{lost: 1}},
		"lost after a failure":   {map[string]string{"a": audit.Fail}, once, verdict{lost: 1}},
		"lost with its process":  {healthy, [][2]string{{"began", "a"}}, verdict{lost: 1}},
		"left in a queue":        {failing, append(once, [2]string{"left", "a"}), verdict{left: 1}},
		"handled twice": {healthy, [][2]string{{"began", "a"}, {"ok", "a"}, {"began", "a"},
			{"ok", "a"}}, verdict{twice: 1}},
		"handled, and a copy is left": {healthy, [][2]string{{"began", "a"}, {"ok", "a"}, {"left", "a"}},
			verdict{left: 1}},
		"dead at the limit": {failing, append(twice, [2]string{"dead", "a"}),
			verdict{requeues: 1}},
		"dead too early":          {failing, append(once, [2]string{"dead", "a"}), verdict{tooEarly: 1}},
		"dead without an attempt": {failing, [][2]string{{"dead", "a"}}, verdict{tooEarly: 1}},
		"dead although it succeeded": {map[string]string{"a": audit.Fail},
			append(once, [][2]string{{"began", "a"}, {"ok", "a"}, {"dead", "a"}}...), verdict{tooEarly: 1, requeues: 1}},
		"too many attempts": {failing, append(append(twice, twice...), [2]string{"dead", "a"}),
			verdict{tooMany: 2, requeues: 3}},
		"an innocent": {healthy, [][2]string{{"began", "a"}, {"dead", "a"}},
			verdict{innocents: 1}},
		"a killer that is dead": {map[string]string{"a": audit.Kill},
			[][2]string{{"began", "a"}, {"began", "a"}, {"dead", "a"}}, verdict{killed: 2}},
		"a killer that is left": {map[string]string{"a": audit.Kill},
			[][2]string{{"began", "a"}, {"left", "a"}}, verdict{killed: 1, left: 1}},
		"two are dead": {failing, append(twice, [][2]string{{"dead", "a"}, {"dead", "a"}}...),
			verdict{copies: 1, requeues: 1}},
		"replaced by a copy": {failing, append(once, [][2]string{{"copied", "a1"}, {"began", "a1"},
			{"fail", "a1"}, {"dead", "a1"}}...), verdict{requeues: 1}},
		"delivered after its copy was published": {failing, append(once, [][2]string{{"copied", "a1"}, {"began", "a"},
			{"fail", "a"}, {"dead", "a1"}}...), verdict{copies: 1, requeues: 1}},
		"its copy did not arrive": {failing, append(once, [][2]string{{"copied", "a1"}, {"began", "a"},
			{"fail", "a"}, {"dead", "a"}}...), verdict{requeues: 1}},
		"the copy of a copy": {failing, append(once, [][2]string{{"copied", "a1"}, {"began", "a1"},
			{"fail", "a1"}, {"copied", "a2"}, {"dead", "a2"}}...), verdict{requeues: 1}},
		"unknown ids": {healthy, [][2]string{{"began", "z"}, {"ok", "z"}, {"began", "a"},
			{"ok", "a"}}, verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(happen(tc.do, tc.what...), 2)
			tc.want.killerDead = name != "a killer that is left"
			got.took, got.good = 0, 0
			if diff := cmp.Diff(tc.want, got, cmp.AllowUnexported(verdict{})); diff != "" {
				t.Errorf("want -, got +\n%s", diff)
			}
		})
	}
}

// TestJudgeOfAnOutage: the first message succeeds before the dependency is away, the second one in a second process
// after it, and the third one is dead-lettered meanwhile.
func TestJudgeOfAnOutage(t *testing.T) {
	servertest.Long(t)
	events := happen(map[string]string{"a": audit.Succeed, "b": audit.Succeed, "c": audit.Succeed},
		[2]string{"began", "a"}, [2]string{"ok", "a"}, [2]string{string(audit.Fault), ""},
		[2]string{"began", "b"}, [2]string{"fail", "b"}, [2]string{"began", "c"}, [2]string{"fail", "c"},
		[2]string{string(audit.FaultOver), ""}, [2]string{"dead", "c"}, [2]string{"began", "b"}, [2]string{"ok", "b"},
		[2]string{"began", "a"}, [2]string{"ok", "a"})
	for i := range events {
		switch {
		case strings.HasPrefix(string(events[i].Kind), string(audit.Fault)):
			events[i].Fault = audit.DependencyAway
		case events[i].ID == "b":
			events[i].Process = 2
		}
	}
	got := judge(events, 4)
	if got.innocents != 1 || got.good != 2 || got.attempts != 2 || !got.goesOn || got.resumed != 3*time.Millisecond ||
		got.resumedAll != 5*time.Millisecond {
		t.Errorf("%+v", got)
	}
	if text := resumption(&got); text != "0.0 / 0.0 s" {
		t.Errorf("resumed: %q", text)
	}
	if got := judge(events[:len(events)-4], 4); got.goesOn || resumption(&got) != "no success" {
		t.Errorf("without a success after it: %+v", got)
	}
}

func TestInversions(t *testing.T) {
	servertest.Long(t)
	do := map[string]string{"a": audit.Fail, "b": audit.Succeed, "c": audit.Poison}
	for name, tc := range map[string]struct {
		what [][2]string
		want int
	}{
		"in order": {[][2]string{{"began", "a"}, {"fail", "a"}, {"began", "a"}, {"ok", "a"}, {"began", "b"}, {"ok", "b"},
			{"began", "c"}, {"fail", "c"}}, 0},
		"the second overtakes": {[][2]string{{"began", "a"}, {"fail", "a"}, {"began", "b"}, {"ok", "b"}, {"began", "a"},
			{"ok", "a"},
			{"began", "c"}, {"fail", "c"}}, 1},
		"both overtake": {[][2]string{{"began", "a"}, {"fail", "a"}, {"began", "b"}, {"ok", "b"}, {"began", "c"},
			{"fail", "c"}, {"dead", "c"},
			{"began", "a"}, {"ok", "a"}}, 2},
		"side by side": {[][2]string{{"began", "a"}, {"began", "b"}, {"ok", "a"}, {"ok", "b"}, {"began", "c"},
			{"fail", "c"}}, 1},
		"a repetition is not": {[][2]string{{"began", "a"}, {"ok", "a"}, {"began", "b"}, {"ok", "b"}, {"began", "a"},
			{"ok", "a"}}, 0},
		"a lost one is no rival": {[][2]string{{"began", "b"}, {"ok", "b"}, {"began", "c"}, {"fail", "c"}}, 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(happen(do, tc.what...), 4).inversions; got != tc.want {
				t.Errorf("%d inversions, want %d", got, tc.want)
			}
		})
	}
}
