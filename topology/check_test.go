package topology

import (
	"context"
	"encoding/json"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// after returns facts whose policy shows d after the first question, and counts
// the questions.
func after(d time.Duration, policy map[string]any, asked *int) func(context.Context) (facts, error) {
	begun := time.Now()
	return func(context.Context) (facts, error) {
		*asked++
		f := sound()
		delete(f.Args, queueinfo.ArgDeadLetterExchange)
		f.PolicyKnown = time.Since(begun) >= d
		if f.PolicyKnown {
			f.Policy = policy
		}
		return f, nil
	}
}

func undecided(need Need) func(facts) bool {
	return func(f facts) bool { return need.undecided(judge(f, need), f) }
}

func TestSettleWaitsForThePolicy(t *testing.T) {
	managed := Need{Queue: "q", Management: "http://h"}
	dlx := map[string]any{"dead-letter-exchange": "x"}
	tests := []struct {
		name   string
		shows  time.Duration
		policy map[string]any
		need   Need
		code   string // of the one finding
		waited time.Duration
	}{
		{"shows at once", 0, dlx, managed, "", 0},
		{"shows later", 8 * time.Second, dlx, managed, "", 8 * time.Second},
		{"shows that there is none", 4 * time.Second, nil, managed, codeNoDeadLetterExchange, 4 * time.Second},
		{"never shows", time.Hour, dlx, managed, codeDeadLetterUnproven, policyWait},
		{"no API", time.Hour, dlx, Need{Queue: "q"}, codeDeadLetterUnproven, 0},
		{"does not matter", time.Hour, dlx, Need{Queue: "q", Management: "http://h", AllowDrop: true}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, asked := time.Now(), 0
				f, err := settled(t.Context(), after(tt.shows, tt.policy, &asked), undecided(tt.need))
				if err != nil {
					t.Fatal(err)
				}
				var got string
				for _, x := range judge(f, tt.need) {
					got += x.Code
				}
				if got != tt.code {
					t.Errorf("found %q, want %q", got, tt.code)
				}
				if waited := time.Since(begun); waited != tt.waited {
					t.Errorf("waited %v, want %v", waited, tt.waited)
				}
				if most := int(tt.waited/policyPoll) + 1; asked > most {
					t.Errorf("asked %d times in %v", asked, tt.waited)
				}
			})
		})
	}
}

func TestSettleEnds(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
		defer cancel()
		asked := 0
		need := Need{Queue: "q", Management: "http://h"}
		if _, err := settled(ctx, after(time.Hour, nil, &asked), undecided(need)); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of ctx", err)
		}
	})
	lost := errors.New("connection lost")
	gather := func(context.Context) (facts, error) { return facts{}, lost }
	if _, err := settled(context.Background(), gather, undecided(Need{Queue: "q"})); !errors.Is(err, lost) {
		t.Errorf("got %v, want %v", err, lost)
	}
}

func TestInspectNeeds(t *testing.T) {
	for name, want := range map[string]string{
		"": "topology: Queue: the name is empty", "a\xff": "not UTF-8", "a\nb": "line break", strings.Repeat("é", 128): "256 bytes",
	} { // a nil connection: nothing may be asked of the broker
		if _, err := Inspect(context.Background(), nil, Need{Queue: name}); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", name, err)
		}
	}
	_, err := Inspect(context.Background(), nil, Need{Queue: "q", Management: "amqp://u:sesame@h"})
	if err == nil || !strings.Contains(err.Error(), "Management") || strings.Contains(err.Error(), "sesame") {
		t.Errorf("not a URL: %v", err)
	}
}

func TestRefusedError(t *testing.T) {
	a := Finding{Code: "a", Severity: Error, Seen: "seen", Why: "why", Fix: "fix"}
	one := &RefusedError{Queue: "q", Findings: []Finding{a}}
	if got, want := one.Error(), `topology: queue "q" refused: a: seen; why. To fix: fix`; got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
	two := &RefusedError{Queue: "q", Findings: []Finding{a, a}}
	want := "topology: queue \"q\" refused for 2 reasons\n  1. a: seen; why. To fix: fix\n  2. a: seen; why. To fix: fix"
	if got := two.Error(); got != want {
		t.Errorf("got %s\nwant %s", got, want)
	}
}

func TestFindingAsJSON(t *testing.T) {
	got, err := json.Marshal(Finding{Code: "a", Severity: Warning, Seen: "s", Why: "w", Fix: "f"})
	if want := `{"code":"a","severity":"warning","seen":"s","why":"w","fix":"f"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
	if got := Severity(9).String(); got != "severity 9" {
		t.Errorf("got %s", got)
	}
}
