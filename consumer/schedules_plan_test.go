package consumer

import (
	"encoding/json"
	"fmt"
	"hash/fnv"
	"math/rand/v2"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
)

// Waits of a schedule in ms: short ones, and one that is longer than a delivery may be held.
const (
	shortHold = 60_000 // consumer timeout
	longWait  = 45_000
)

// newSchedule draws a case without replies and trace.
func newSchedule(name string, rng *rand.Rand) conductCase {
	tc := conductCase{
		Name: name, Why: "It was drawn, and Go did this.", Settings: drawSettings(rng),
		Handlers: map[string][]conductHandler{}, Until: 5000 + rng.Int64N(115_000),
	}
	at := int64(0)
	for i := range 1 + rng.IntN(4) {
		at += rng.Int64N(2500)
		d := drawDelivery(rng, at, fmt.Sprintf("m%d", i+1))
		tc.Deliveries = append(tc.Deliveries, d)
		for range 1 + rng.IntN(4) {
			tc.Handlers[d.ID] = append(tc.Handlers[d.ID], drawHandler(rng))
		}
	}
	for rng.IntN(10) < 4 {
		tc.Outages = append(tc.Outages, drawOutage(rng))
	}
	tc.Events = drawEvents(rng, tc)
	drawLimits(tc.Name, &tc)
	drawBreaker(tc.Name, &tc)
	return tc
}

// drawBreaker has dice of its own too. One schedule in three has a breaker, and most of these see it open.
func drawBreaker(name string, tc *conductCase) {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, "breaker ", name)
	rng := rand.New(rand.NewPCG(h.Sum64(), 0))
	if rng.IntN(3) > 0 {
		return
	}
	tc.Settings.Breaker = 2 + rng.IntN(3)
	if rng.IntN(3) == 0 {
		tc.Settings.Patience = 1000 + rng.Int64N(60_000)
	}
	for i := range tc.Deliveries[1:] {
		tc.Deliveries[i+1].Beyond = rng.IntN(5) == 0
	}
	at := rng.Int64N(4000)
	add := func(event string, later int64) {
		at += later
		tc.Events = append(tc.Events, conductEvent{At: at, Event: event})
	}
	switch rng.IntN(6) {
	case 0:
		return
	case 1: // others succeed
		for range 5 + rng.IntN(10) {
			add("others", 500)
		}
		return
	}
	add("doubt", 0)
	add("opened", rng.Int64N(2000))
	for range rng.IntN(4) {
		add("permit", 1000+rng.Int64N(2000))
	}
	if rng.IntN(4) > 0 {
		add("closed", 100+rng.Int64N(4000))
	}
}

// drawLimits has dice of its own, so that the schedules of earlier seeds stay the same.
func drawLimits(name string, tc *conductCase) {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, name)
	rng := rand.New(rand.NewPCG(h.Sum64(), 0))
	if rng.IntN(3) == 0 {
		tc.Settings.MaxAge = 1 + rng.Int64N(10_000)
	}
	for _, d := range tc.Deliveries {
		handlers := tc.Handlers[d.ID]
		for i := range handlers {
			if handlers[i].Fail != "" && rng.IntN(5) == 0 {
				handlers[i].RetryAtMost = new(rng.IntN(5) - 1)
			}
			if handlers[i].Fail != "" && i < len(handlers)-1 && rng.IntN(6) == 0 {
				handlers[i].Fail, handlers[i].NotCounted = "", "away"
			}
		}
	}
}

func drawSettings(rng *rand.Rand) conductSettings {
	s := conductSettings{
		MaxRetries: new(rng.IntN(4)), Backoff: new([]int64{0, 50, 300, 1000, 2500, longWait}[rng.IntN(6)]),
		Retry:       []string{"requeue", "requeue", "in-place"}[rng.IntN(3)],
		Isolation:   []string{"suspects", "suspects", "suspects", "suspects", "off"}[rng.IntN(5)],
		Concurrency: 1 + rng.IntN(3), Reconnected: rng.IntN(5) == 0,
	}
	if rng.IntN(2) == 0 {
		s.HandlerTimeout = 300 + rng.Int64N(4000)
	}
	if rng.IntN(2) == 0 {
		s.ConsumerTimeout = shortHold
		if s.HandlerTimeout == 0 {
			s.HandlerTimeout = shortHold / 2
		}
	}
	if rng.IntN(2) == 0 {
		s.Drain = 200 + rng.Int64N(6000)
	}
	return s
}

func drawDelivery(rng *rand.Rand, at int64, id string) conductDelivery {
	d := conductDelivery{At: at, ID: id, NoID: rng.IntN(8) == 0, Redelivered: rng.IntN(2) == 0}
	died := time.Unix(1_700_000_000+rng.Int64N(1000), 0)
	death := amqp.Table{"queue": "orders", "reason": "rejected", "count": int64(1), "time": died}
	switch rng.IntN(10) {
	case 0:
		d.Headers = specTable{"x-strikes-generation": "g2", "x-strikes-fence": 1_700_000_000_000_000 + rng.Int64N(1000)}
	case 1:
		d.Headers = specTable{"x-death": []any{death}}
	case 2:
		d.Headers = specTable{"x-strikes-generation": "g2", "x-death": []any{death}}
	}
	if d.Headers != nil && rng.IntN(8) > 0 { // else they count as absent
		messageID := id
		if d.NoID {
			messageID = ""
		}
		broker.WriteFor(amqp.Table(d.Headers), "orders", messageID, []byte(d.Body))
	}
	return d
}

func drawHandler(rng *rand.Rand) conductHandler {
	h := conductHandler{Takes: []int64{0, rng.Int64N(300), rng.Int64N(4000), rng.Int64N(12_000)}[rng.IntN(4)],
		Deaf: rng.IntN(6) == 0}
	switch n := rng.IntN(20); {
	case n < 7:
		h.OK = true
	case n < 9:
		h.Reject = "rejected"
	default:
		h.Fail = "failed"
		if rng.IntN(4) == 0 {
			h.RetryAfter = 1 + rng.Int64N(3000)
		}
	}
	return h
}

var faultKinds = []string{"lost", "lost", "down", "refused"}

func drawOutage(rng *rand.Rand) conductOutage {
	o := conductOutage{From: rng.Int64N(15_000), Kind: faultKinds[rng.IntN(4)]}
	o.To = o.From + []int64{rng.Int64N(1500), rng.Int64N(8000), rng.Int64N(100_000)}[rng.IntN(3)]
	if n := rng.IntN(8); n < 4 {
		o.Steps = []string{[]string{"START", "BEGUN", "FAIL", "END"}[n]}
	}
	return o
}

func drawEvents(rng *rand.Rand, tc conductCase) (events []conductEvent) {
	if rng.IntN(5) == 0 { // CONTROL is read once a second
		events = append(events, conductEvent{At: 1000*(1+rng.Int64N(8)) - 100, Event: "skip",
			ID: tc.Deliveries[rng.IntN(len(tc.Deliveries))].ID})
	}
	at := []int64{rng.Int64N(3000), rng.Int64N(12_000), rng.Int64N(60_000)}[rng.IntN(3)]
	switch n := rng.IntN(20); {
	case n < 5:
		events = append(events, conductEvent{At: at, Event: "stop"})
	case n < 8:
		events = append(events, conductEvent{At: at, Event: "lose"})
	case n < 10:
		events = append(events, conductEvent{At: at, Event: "cancel"})
	case n < 12 && tc.Settings.Drain > 0: // while it drains
		later := at + rng.Int64N(tc.Settings.Drain)
		events = append(events, conductEvent{At: at, Event: "stop"}, conductEvent{At: later, Event: []string{"lose",
			"cancel"}[rng.IntN(2)]})
	}
	return events
}

// scheduleReplies draws the store's reply to a step. The nth reply depends on nothing but the step, so that a run
// which asks for the same replies in another order gets them.
type scheduleReplies struct {
	seed  uint64
	limit int
}

type scheduleReply struct {
	Code     string `json:"code"`
	Failures int    `json:"failures"`
	Crashes  int    `json:"crashes"`
	Limit    int    `json:"limit"`
	Fence    int64  `json:"fence,omitempty"`
	Wait     int64  `json:"wait,omitempty"`
	Cause    string `json:"cause,omitempty"`
	Reason   string `json:"reason,omitempty"`
}

const mostReplies = 6 // of a step, until its message comes to an end

func (s scheduleReplies) draw(e conductEntry, n int) json.RawMessage {
	rng := s.rng(e.ID, e.Do, n)
	if stuck := s.rng(e.ID, e.Do, -1); n < mostReplies && rng.IntN(8) == 0 || stuck.IntN(25) == 0 && n >= stuck.IntN(3) {
		kind := rng
		if n >= mostReplies {
			kind = stuck
		}
		return encoded(faultKinds[kind.IntN(4)])
	}
	reply := scheduleReply{Code: s.code(rng, e, n), Failures: min(n, s.limit-1), Crashes: rng.IntN(4) / 3,
		Limit: s.limit}
	if rng.IntN(6) == 0 {
		reply.Limit = 1 + rng.IntN(6) // an override
	}
	switch reply.Code {
	case "RUN":
		reply.Fence = 1_700_000_001_000_000 + int64(n)
	case "WAIT", "REQUEUE":
		reply.Wait = []int64{1 + rng.Int64N(200), 1 + rng.Int64N(4000), longWait}[rng.IntN(9)/4]
	case "EXHAUSTED":
		reply.Cause, reply.Reason = []string{"failed", "failed", "too-old"}[n%3], "failed before"
	}
	return encoded(reply)
}

// code draws one that the step can have.
func (s scheduleReplies) code(rng *rand.Rand, e conductEntry, n int) string {
	switch {
	case e.Do == "END":
		return "ENDED"
	case e.Do == "BEGUN":
		return []string{"BEGUN", "BEGUN", "BEGUN", "BEGUN", "BEGUN", "BEGUN", "BEGUN", "GONE"}[rng.IntN(8)]
	case e.Do == "FAIL" && e.Cause == string(counter.CauseNotCounted):
		return "UNCOUNTED"
	case e.Do == "FAIL" && *e.Limit == 0 || n >= mostReplies:
		return "EXHAUSTED"
	case e.Do == "FAIL" && e.Progress != nil && rng.IntN(3) == 0:
		return "UNCOUNTED"
	case e.Do == "FAIL":
		return []string{"REQUEUE", "REQUEUE", "REQUEUE", "EXHAUSTED"}[rng.IntN(4)]
	case e.Mode == "shared":
		return []string{"RUN", "RUN", "RUN", "RUN", "WAIT", "SUSPECT", "SUSPECT", "EXHAUSTED"}[rng.IntN(8)]
	}
	return []string{"RUN", "RUN", "RUN", "RUN", "RUN", "WAIT", "EXHAUSTED"}[rng.IntN(7)]
}

func (s scheduleReplies) rng(id, step string, n int) *rand.Rand {
	h := fnv.New64a()
	_, _ = fmt.Fprint(h, id, " ", step, " ", n)
	return rand.New(rand.NewPCG(s.seed, h.Sum64()))
}

func encoded(v any) json.RawMessage {
	out, err := json.Marshal(v)
	if err != nil {
		panic(err)
	}
	return out
}
