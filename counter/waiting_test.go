package counter

import (
	"strings"
	"testing"
	"time"
)

// TestWaiting: the messages that a reader holds are shown with it until it reports others.
func TestWaiting(t *testing.T) {
	why := "out of reach: " + strings.Repeat("x", 600)
	for _, s := range stores(t) {
		for _, want := range []Waiting{{}, {Messages: 2, For: 90 * time.Second, Why: "a b\n c"}, {Messages: 1, Why: why}} {
			needOf(t, s.name, errOf(s.Control(t.Context(), "/", "orders", Reader{Token: "a", Consumer: "host", Waiting: want})))
			now, err := s.State(t.Context(), "/", "orders")
			if err != nil || len(now.Consumers) != 1 {
				t.Fatalf("%s: %v, %v", s.name, now.Consumers, err)
			}
			got := now.Consumers[0].Waiting
			if got.Messages != want.Messages || got.For != want.For || !strings.HasPrefix(want.Why, got.Why) ||
				(got.Why == "") != (want.Why == "") || len(got.Why) > maxWaitingReason {
				t.Errorf("%s: %+v, want %+v", s.name, got, want)
			}
		}
		// It stops, and its last report is not yet forgotten.
		needOf(t, s.name, s.Pause(t.Context(), "/", "orders", Note{Why: "a test"}))
		needOf(t, s.name, errOf(s.Control(t.Context(), "/", "orders", Reader{Token: "a", Consumer: "host", Stopped: true})))
		now, err := s.State(t.Context(), "/", "orders")
		if err != nil || len(now.Consumers) != 1 || !now.Consumers[0].Paused || now.Consumers[0].Waiting.Messages != 0 {
			t.Errorf("%s: a stopped process holds messages: %+v, %v", s.name, now.Consumers, err)
		}
	}
}

func TestParseWaiting(t *testing.T) {
	for _, text := range []string{"", "1", "1 2", "0 2 x", "-1 2 x", "1 -2 x", "x 2 x", "1 x x"} {
		if got := parseWaiting(text); got != (Waiting{}) {
			t.Errorf("%q: %+v", text, got)
		}
	}
}
