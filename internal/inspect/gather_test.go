package inspect

import (
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/internal/broker"
)

// after returns Facts whose policy shows d after the first question, and counts
// the questions.
func after(d time.Duration, policy map[string]any, asked *int) func(context.Context) (Facts, error) {
	begun := time.Now()
	return func(context.Context) (Facts, error) {
		*asked++
		f := sound()
		delete(f.Args, broker.ArgDeadLetterExchange)
		f.PolicyKnown = time.Since(begun) >= d
		if f.PolicyKnown {
			f.Policy = policy
		}
		return f, nil
	}
}

// settle gathers until the facts are known or the wait is over.
func settle(ctx context.Context, gather func(context.Context) (Facts, error), need Need) (Facts, error) {
	return broker.Settled(ctx, func(ctx context.Context) (Facts, bool, error) {
		f, err := gather(ctx)
		return f, !f.undecided(All, need), err
	})
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
		{"shows immediately", 0, dlx, managed, "", 0},
		{"shows later", 8 * time.Second, dlx, managed, "", 8 * time.Second},
		{"shows that there is none", 4 * time.Second, nil, managed, CodeNoDeadLetterExchange, 4 * time.Second},
		{"never shows", time.Hour, dlx, managed, CodeDeadLetterUnproven, 15 * time.Second},
		{"no API", time.Hour, dlx, Need{Queue: "q"}, CodeDeadLetterUnproven, 0},
		{"does not matter", time.Hour, dlx, Need{Queue: "q", Management: "http://h", AllowDrop: true}, "", 0},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				begun, asked := time.Now(), 0
				f, err := settle(t.Context(), after(tt.shows, tt.policy, &asked), tt.need)
				if err != nil {
					t.Fatal(err)
				}
				var got string
				for _, x := range Judge(All, f, tt.need) {
					got += x.Code
				}
				if got != tt.code {
					t.Errorf("found %q, want %q", got, tt.code)
				}
				if waited := time.Since(begun); waited != tt.waited {
					t.Errorf("waited %v, want %v", waited, tt.waited)
				}
				if most := int(tt.waited/(500*time.Millisecond)) + 1; asked > most {
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
		if _, err := settle(ctx, after(time.Hour, nil, &asked), need); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("got %v, want the end of ctx", err)
		}
	})
	lost := errors.New("connection lost")
	gather := func(context.Context) (Facts, error) { return Facts{}, lost }
	if _, err := settle(context.Background(), gather, Need{Queue: "q"}); !errors.Is(err, lost) {
		t.Errorf("got %v, want %v", err, lost)
	}
}

func TestFindingAsJSON(t *testing.T) {
	got, err := json.Marshal(Finding{Code: "a", Severity: Warning, Seen: "s", Impact: "w", Fix: "f"})
	if want := `{"code":"a","severity":"warning","seen":"s","impact":"w","fix":"f"}`; err != nil || string(got) != want {
		t.Errorf("got %s, %v, want %s", got, err, want)
	}
}

// replies is a management API that always replies the same.
type replies string

func (r replies) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(r)))}, nil
}

// FuzzAnswers: any reply of the management API about a queue is judged.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"type":"quorum","durable":true,"arguments":{"x-delivery-limit":7,"x-dead-letter-exchange":"dlx"}}`, "4.0.5", 3)
	f.Add(`{"type":"quorum","arguments":{"x-delivery-limit":-1},"effective_policy_definition":{"delivery-limit":"none"}}`,
		"3.10.8", 0)
	f.Add(`{"type":1}`, "", -1)
	f.Add(`{"type":"classic","arguments":[],"effective_policy_definition":[]}`, "4", 1000)
	f.Add(`{"arguments":{"x-dead-letter-exchange":{},"x-overflow":[1],"x-max-priority":1e999,"x-queue-type":null}}`,
		"x.y", 3)
	f.Add(`[{"destination":"q.dlq","destination_type":"queue"}]`, "4.3.6-rc.1+2", 3)
	f.Fuzz(func(t *testing.T, text, rabbit string, retries int) {
		api, err := broker.NewAPI("http://h", &http.Client{Transport: replies(text)})
		if err != nil {
			t.Fatal(err)
		}
		q, err := api.Queue(t.Context(), "/", "q")
		if err != nil {
			return
		}
		v, _ := broker.ParseVersion(rabbit)
		q.Version = v
		have := Facts{Product: "RabbitMQ", Description: broker.Description{Queue: q}}
		for _, found := range Judge(All, have, Need{Queue: "q", MaxRetries: retries, Ordered: len(text)%2 == 0}) {
			if found.Code == "" || found.Seen == "" || found.Impact == "" || found.Fix == "" {
				t.Errorf("%s: %+v is incomplete", text, found)
			}
		}
	})
}
