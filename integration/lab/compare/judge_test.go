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

// happen makes a history of events, a millisecond apart: "began a, fail a". The messages are published first.
func happen(do map[string]string, story string) []audit.Event {
	var events []audit.Event
	for seq, id := range []string{"a", "b", "c"} {
		if do[id] != "" {
			events = append(events, audit.Event{Kind: audit.Published, ID: id, Seq: seq + 1, Do: do[id]})
		}
	}
	for i, part := range strings.Split(strings.TrimSuffix(story, ", "), ", ") {
		kind, of, _ := strings.Cut(part, " ")
		e := audit.Event{At: noon.Add(time.Duration(i) * time.Millisecond), Kind: audit.Kind(kind), ID: of}
		switch kind {
		case "ok":
			e.Kind, e.Outcome = audit.Ended, audit.OK
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
	fails, killer := map[string]string{"a": audit.Fail}, map[string]string{"a": audit.Kill}
	const once = "began a, fail a, "
	const twice = once + once
	for name, tc := range map[string]struct {
		do    map[string]string
		story string
		want  verdict
	}{
		"handled": {healthy, "began a, ok a", verdict{}},
		"handled by the process that died, then again": {healthy, "began a, began a, ok a", verdict{}},
		"lost before an attempt":                       {healthy, "", verdict{lost: 1}},
		"lost after a failure":                         {fails, once, verdict{lost: 1}},
		"lost with its process":                        {healthy, "began a", verdict{lost: 1}},
		"left in a queue":                              {failing, once + "left a", verdict{left: 1}},
		"handled twice":                                {healthy, "began a, ok a, began a, ok a", verdict{twice: 1}},
		"handled, and a copy is left":                  {healthy, "began a, ok a, left a", verdict{left: 1}},
		"dead at the limit":                            {failing, twice + "dead a", verdict{requeues: 1}},
		"dead too early":                               {failing, once + "dead a", verdict{tooEarly: 1}},
		"dead without an attempt":                      {failing, "dead a", verdict{tooEarly: 1}},
		"dead although it succeeded": {fails, once + "began a, ok a, dead a",
			verdict{tooEarly: 1, requeues: 1}},
		"too many attempts":     {failing, twice + twice + "dead a", verdict{tooMany: 2, requeues: 3}},
		"an innocent":           {healthy, "began a, dead a", verdict{innocents: 1}},
		"a killer that is dead": {killer, "began a, began a, dead a", verdict{killed: 2}},
		"a killer that is left": {killer, "began a, left a", verdict{killed: 1, left: 1}},
		"unknown ids":           {healthy, "began z, ok z, began a, ok a", verdict{}},
	} {
		t.Run(name, func(t *testing.T) {
			got := judge(happen(tc.do, tc.story), 2)
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
	events := happen(map[string]string{"a": audit.Succeed, "b": audit.Succeed, "c": audit.Succeed}, "began a, ok a, "+
		"fault, began b, fail b, began c, fail c, fault-over, dead c, began b, ok b, began a, ok a")
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
		story string
		want  int
	}{
		"in order":               {"began a, fail a, began a, ok a, began b, ok b, began c, fail c", 0},
		"the second overtakes":   {"began a, fail a, began b, ok b, began a, ok a, began c, fail c", 1},
		"both overtake":          {"began a, fail a, began b, ok b, began c, fail c, dead c, began a, ok a", 2},
		"side by side":           {"began a, began b, ok a, ok b, began c, fail c", 1},
		"a repetition is not":    {"began a, ok a, began b, ok b, began a, ok a", 0},
		"a lost one is no rival": {"began b, ok b, began c, fail c", 0},
	} {
		t.Run(name, func(t *testing.T) {
			if got := judge(happen(do, tc.story), 4).inversions; got != tc.want {
				t.Errorf("%d inversions, want %d", got, tc.want)
			}
		})
	}
}
