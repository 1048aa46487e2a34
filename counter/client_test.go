package counter

import (
	"errors"
	"math"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

func TestParseReply(t *testing.T) {
	good := []any{"REQUEUE", int64(2), int64(1), int64(4), int64(7), int64(1500), "panicked", "boom", int64(0)}
	want := Reply{Code: rules.ReplyRequeue, Failures: 2, Crashes: 1, Limit: 4, Fence: 7, Wait: 1500 * time.Millisecond,
		Cause: CausePanicked, Reason: "boom"}
	if got, err := parseReply(good); err != nil || got != want {
		t.Errorf("got %+v, %v, want %+v", got, err, want)
	}
	with := func(i int, v any) []any {
		r := append([]any(nil), good...)
		r[i] = v
		return r
	}
	for name, reply := range map[string]any{
		"nil":               nil,
		"a string":          "OK",
		"a number":          int64(1),
		"no values":         []any{},
		"eight values":      good[:8],
		"ten values":        append(with(0, "RUN"), "more"),
		"eleven values":     append(with(0, "RUN"), int64(0), int64(0)),
		"duplicate is nil":  with(8, nil),
		"unknown code":      with(0, "PERHAPS"),
		"code is nil":       with(0, nil),
		"lower case":        with(0, "requeue"),
		"failures as text":  with(1, "2"),
		"crashes below 0":   with(2, int64(-1)),
		"limit is nil":      with(3, nil),
		"starts overflowed": with(4, int64(math.MinInt64)),
		"wait is a float":   with(5, 1.5),
		"an error in it":    with(1, errors.New("ERR")),
		"a nested list":     with(1, []any{int64(1)}),
	} {
		t.Run(name, func(t *testing.T) {
			if got, err := parseReply(reply); !errors.Is(err, ErrReply) {
				t.Errorf("got %+v, %v, want ErrReply", got, err)
			}
		})
	}
	if got, err := parseReply(with(5, int64(math.MaxInt64))); err != nil || got.Wait <= 0 {
		t.Errorf("the longest wait: %v, %v", got.Wait, err)
	}
	if got, err := parseReply(with(6, nil)); err != nil || got.Cause != "" {
		t.Errorf("no cause: %q, %v", got.Cause, err)
	}
	if got, err := parseReply(with(8, int64(1))); err != nil || !got.PossibleDuplicate {
		t.Errorf("a possible duplicate: %+v, %v", got, err)
	}
	if got, err := parseReply(with(7, nil)); err != nil || got.Reason != "" {
		t.Errorf("no reason: %q, %v", got.Reason, err)
	}
}

func TestCeilMillis(t *testing.T) {
	for d, want := range map[time.Duration]int64{
		-time.Hour: 0, 0: 0, 1: 1, time.Millisecond: 1, time.Millisecond + 1: 2,
		math.MinInt64: 0, math.MaxInt64: rules.MaxWaitMillis,
	} {
		if got := rules.CeilMillis(d); got != want {
			t.Errorf("rules.CeilMillis(%d) = %d, want %d", d, got, want)
		}
	}
}

// TestLargest: the largest numbers that can be given are neither rounded nor wrapped on their way.
func TestLargest(t *testing.T) {
	m := Message{VHost: "/", Queue: "orders", ID: "1"}
	for _, s := range stores(t) {
		got, err := s.Fail(t.Context(), attempt(m, "a"), Failure{Limit: math.MaxInt, Wait: math.MaxInt64})
		if err != nil || got.Code != rules.ReplyRequeue || got.Limit != rules.MaxLimit || got.Wait < 290*365*24*time.Hour {
			t.Errorf("%s: fail: %+v, %v", s.name, got, err)
		}
		got, err = s.Start(t.Context(), attempt(m, "b"), rules.ModeIsolated, math.MaxInt)
		if err != nil || got.Code != rules.ReplyWait || got.Limit != rules.MaxLimit || got.Wait < 290*365*24*time.Hour {
			t.Errorf("%s: start: %+v, %v", s.name, got, err)
		}
	}
}
