package consumer

import (
	"encoding/json"
	"fmt"
	"maps"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/internal/servertest"
)

// conductCase is a case of spec/v1/conduct.json.
type conductCase struct {
	Name       string                                  `json:"name"`
	Why        string                                  `json:"why"`
	OfBreaker  bool                                    `json:"breaker,omitempty"`
	Settings   conductSettings                         `json:"settings"`
	Deliveries []conductDelivery                       `json:"deliveries"`
	Handlers   map[string][]conductHandler             `json:"handlers"`
	Replies    map[string]map[string][]json.RawMessage `json:"replies,omitempty"`
	Outages    []conductOutage                         `json:"outages,omitempty"`
	Events     []conductEvent                          `json:"events,omitempty"`
	Until      int64                                   `json:"until"`
	Trace      []conductEntry                          `json:"trace"`
}

type conductSettings struct {
	MaxRetries      *int   `json:"max_retries,omitempty"`
	MaxAge          int64  `json:"max_age,omitempty"`
	Retry           string `json:"retry,omitempty"`
	Isolation       string `json:"isolation,omitempty"`
	Backoff         *int64 `json:"backoff,omitempty"`
	HandlerTimeout  int64  `json:"handler_timeout,omitempty"`
	ConsumerTimeout int64  `json:"consumer_timeout,omitempty"`
	Concurrency     int    `json:"concurrency,omitempty"`
	Drain           int64  `json:"drain,omitempty"`
	Reconnected     bool   `json:"reconnected,omitempty"`
	Paused          bool   `json:"paused,omitempty"`
	BlockedLanes    int    `json:"blocked_lanes,omitempty"`
	Breaker         int    `json:"breaker,omitempty"`
	Patience        int64  `json:"patience,omitempty"`
}

type conductDelivery struct {
	At          int64     `json:"at"`
	ID          string    `json:"id"`
	NoID        bool      `json:"no_id,omitempty"`
	Redelivered bool      `json:"redelivered,omitempty"`
	Headers     specTable `json:"headers,omitempty"`
	Body        string    `json:"body,omitempty"`
	Timestamp   int64     `json:"timestamp,omitempty"`
	Beyond      bool      `json:"beyond,omitempty"` // the prefetch
}

type conductHandler struct {
	OK          bool   `json:"ok,omitempty"`
	Fail        string `json:"fail,omitempty"`
	Reject      string `json:"reject,omitempty"`
	NotCounted  string `json:"not_counted,omitempty"`
	RetryAfter  int64  `json:"retry_after,omitempty"`
	RetryAtMost *int   `json:"retry_at_most,omitempty"`
	Takes       int64  `json:"takes,omitempty"`
	Deaf        bool   `json:"deaf,omitempty"`
}

type conductOutage struct {
	From  int64    `json:"from"`
	To    int64    `json:"to"`
	Kind  string   `json:"kind"`
	Steps []string `json:"steps,omitempty"`
}

type conductEvent struct {
	At    int64  `json:"at"`
	Event string `json:"event"`
	ID    string `json:"id,omitempty"`
}

// conductEntry is one thing that the consumer did.
type conductEntry struct {
	ID         string           `json:"id,omitempty"`
	Do         string           `json:"do"`
	Token      int              `json:"token,omitempty"` // the Nth of the message
	Generation string           `json:"generation,omitempty"`
	Mode       string           `json:"mode,omitempty"`
	First      bool             `json:"first,omitempty"`
	Limit      *int             `json:"limit,omitempty"`
	Wait       *int64           `json:"wait,omitempty"`
	Cause      string           `json:"cause,omitempty"`
	Reason     string           `json:"reason,omitempty"`
	MaxAge     int64            `json:"max_age,omitempty"`
	AtMost     int              `json:"at_most,omitempty"`
	Delay      string           `json:"delay,omitempty"`
	Succeeded  bool             `json:"succeeded,omitempty"`
	Number     int              `json:"number,omitempty"`
	Last       int              `json:"last,omitempty"`
	Fence      int64            `json:"fence,omitempty"`
	Repeated   bool             `json:"repeated,omitempty"` // sent again because there was no reply
	Progress   *conductProgress `json:"progress,omitempty"`
	From       *int64           `json:"from,omitempty"`
	To         *int64           `json:"to,omitempty"`

	at       int64
	answered bool
}

// conductProgress is the progress of a process. Times are ms since the session began; nil: none.
type conductProgress struct {
	Breaker  int    `json:"breaker"`
	Patience int64  `json:"patience,omitempty"`
	Began    *int64 `json:"began,omitempty"`
	Ended    *int64 `json:"ended,omitempty"`
	Attempt  *int64 `json:"attempt,omitempty"`
	Failing  bool   `json:"failing,omitempty"`
}

// like reports whether other is as expected. Times may differ by 200 ms; those that are nil are not compared, and
// -1000 stands for none.
func (p *conductProgress) like(other *conductProgress) bool {
	if p == nil || other == nil {
		return p == other
	}
	near := func(a, b *int64) bool {
		got := int64(-1000)
		if b != nil {
			got = *b
		}
		return a == nil || max(*a-got, got-*a) <= 200
	}
	return p.Breaker == other.Breaker && p.Patience == other.Patience && p.Failing == other.Failing &&
		near(p.Began, other.Began) && near(p.Ended, other.Ended) && near(p.Attempt, other.Attempt)
}

func TestSpecConduct(t *testing.T) {
	for _, tc := range servertest.SpecCases[conductCase](t, "conduct.json") {
		t.Run(tc.Name, func(t *testing.T) {
			for _, wrong := range checkTrace(tc.Trace, runConduct(t, tc)) {
				t.Errorf("%s (%s): %s", tc.Name, tc.Why, wrong)
			}
		})
	}
}

// TestSpecConductRunnerFails changes one expected entry of each case. A runner that compares nothing would pass.
func TestSpecConductRunnerFails(t *testing.T) {
	for i, tc := range servertest.SpecCases[conductCase](t, "conduct.json") {
		got := runConduct(t, tc)
		n := i % len(tc.Trace)
		for what, change := range map[string]func(*conductEntry){
			"do": func(e *conductEntry) {
				e.Do += "x"
			}, "token": func(e *conductEntry) { e.Token++ }, "limit": func(e *conductEntry) {
				e.Limit = new(-1)
			},
			"repeated": func(e *conductEntry) { e.Repeated = !e.Repeated }, "from": func(e *conductEntry) {
				e.From = new(int64(1 << 40))
			},
			"to": func(e *conductEntry) { e.To = new(int64(-1)) }, "succeeded": func(e *conductEntry) {
				e.Succeeded = !e.Succeeded
			},
			"id": func(e *conductEntry) { e.ID += "x" }, "progress": func(e *conductEntry) {
				e.Progress = &conductProgress{Breaker: 101}
			},
		} {
			wrong := slices.Clone(tc.Trace)
			change(&wrong[n])
			if len(checkTrace(wrong, got)) == 0 {
				t.Errorf("%s: %s of entry %d was changed, and no difference was found", tc.Name, what, n)
			}
		}
		if len(checkTrace(tc.Trace[1:], got)) == 0 ||
			len(checkTrace(append(slices.Clone(tc.Trace), conductEntry{ID: "m1", Do: "ack"}), got)) == 0 {
			t.Errorf("%s: an entry more or less makes no difference", tc.Name)
		}
	}
}

// checkTrace returns the differences. Entries of one message are compared in their order, and entries without a
// message too.
func checkTrace(want, got []conductEntry) (wrong []string) {
	wanted, seen := byMessage(want), byMessage(got)
	for id := range maps.Keys(merged(wanted, seen)) {
		for _, text := range checkMessage(wanted[id], seen[id]) {
			wrong = append(wrong, fmt.Sprintf("message %q: %s", id, text))
		}
	}
	return wrong
}

func byMessage(trace []conductEntry) map[string][]conductEntry {
	of := map[string][]conductEntry{}
	for _, e := range trace {
		of[e.ID] = append(of[e.ID], e)
	}
	return of
}

func merged(a, b map[string][]conductEntry) map[string][]conductEntry {
	out := maps.Clone(a)
	maps.Copy(out, b)
	return out
}

func checkMessage(want, got []conductEntry) (wrong []string) {
	for i := range max(len(want), len(got)) {
		if i >= len(got) || i >= len(want) {
			return append(wrong, fmt.Sprintf("%d entries, want %d: %s", len(got), len(want), shownEntries(got)))
		}
		w, g := want[i], got[i]
		if w.From != nil && g.at < *w.From || w.To != nil && g.at > *w.To {
			wrong = append(wrong, fmt.Sprintf("entry %d came at %d ms", i, g.at))
		}
		w.From, w.To = nil, nil
		if w.Progress.like(g.Progress) {
			g.Progress = w.Progress
		}
		if diff := cmp.Diff(w, g, cmp.FilterPath(func(p cmp.Path) bool {
			f := p.Last().String()
			return f == ".at" || f == ".answered"
		}, cmp.Ignore())); diff != "" {
			wrong = append(wrong, fmt.Sprintf("entry %d: %s", i, diff))
		}
	}
	return wrong
}

func shownEntries(entries []conductEntry) string {
	out, _ := json.MarshalIndent(entries, "", "  ")
	return string(out)
}
