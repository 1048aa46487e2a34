package consumer

import (
	"fmt"
	"strings"
	"time"
)

// simEvent is one thing that happened, in the world's words: the checker knows nothing else.
type simEvent struct {
	at            time.Duration
	kind          string
	proc, session int
	tag           uint64
	copy, id      string
	lane          string // publish
	token         string
	what          string // which step, outcome, settlement or fault
	text          string

	redelivered bool          // deliver, run
	until       time.Duration // run: its deadline
	fence       int64         // run
	took        bool          // settle: the broker acted on it

	verdict           string // store, answer
	late, first       bool   // store
	exclusive, beside bool   // store: START
	succeeded         bool   // store: END
	limit             int    // store
	before, after     simRecord
}

// simRecord is what the store keeps of a message.
type simRecord struct {
	exists            bool
	state             string
	failures, crashes int
	tokens            map[string]byte
	openToken         string
	exclusive         bool
	suspect           bool
	double            bool // possibly two messages
	fence             int64
	ttl               time.Duration
	cause             string
}

// simStory prints a history, with short names for tokens.
func simStory(plan simPlan, history []simEvent) string {
	var b strings.Builder
	fmt.Fprintf(&b, "limit %d, %s, %s, %d processes of %d consumers, concurrency %d, prefetch %d\n", max(plan.maxRetries, 0)+1,
		map[Isolation]string{IsolationSuspects: "suspects isolated", IsolationStrict: "strict", IsolationOff: "isolation off"}[plan.isolation],
		map[RetryMode]string{RetryRequeue: "requeue", RetryInPlace: "in place"}[plan.retry],
		plan.processes, plan.consumers, plan.concurrency, plan.prefetch)
	if plan.sour > 0 {
		fmt.Fprintf(&b, "%d %% of the requests to the store go wrong\n", plan.sour)
	}
	if plan.operations > 0 {
		fmt.Fprintf(&b, "%d pauses, resumes and skips\n", plan.operations)
	}
	if plan.ordered {
		b.WriteString("ordered, on a single-active-consumer queue\n")
	}
	names := map[string]string{"": ""}
	short := func(token string) string {
		if names[token] == "" && token != "" {
			names[token] = fmt.Sprintf("T%d", len(names))
		}
		return names[token]
	}
	for _, e := range history {
		fmt.Fprintf(&b, "%9.3fs %s\n", e.at.Seconds(), e.line(short))
	}
	return b.String()
}

func (e simEvent) line(short func(string) string) string {
	who := ""
	if e.proc > 0 {
		who = fmt.Sprintf("p%d", e.proc)
	}
	if e.session > 0 {
		who += fmt.Sprintf(" s%d", e.session)
	}
	parts := []string{fmt.Sprintf("%-7s %-8s", who, e.kind)}
	for _, p := range []string{e.copy, e.lane, short(e.token), e.what, e.text} {
		if p != "" {
			parts = append(parts, p)
		}
	}
	if e.copy == "" && e.id != "" {
		parts = append(parts, "of "+e.id)
	}
	for _, f := range []struct {
		is   bool
		name string
	}{{e.late, "late"}, {e.exclusive, "exclusive"}, {e.beside, "beside"}, {e.redelivered, "redelivered"}, {e.kind == "settle" && e.took, "done"}} {
		if f.is {
			parts = append(parts, f.name)
		}
	}
	if e.verdict != "" {
		parts = append(parts, "-> "+e.verdict)
	}
	if e.kind == "store" {
		parts = append(parts, e.after.String(short))
	}
	return strings.Join(parts, " ")
}

func (r simRecord) String(short func(string) string) string {
	if !r.exists {
		return "(no record)"
	}
	out := fmt.Sprintf("(%d+%d", r.failures, r.crashes)
	if r.state != "" {
		out += " " + r.state
	}
	if r.openToken != "" {
		out += " open " + short(r.openToken)
		if r.exclusive {
			out += " exclusive"
		}
	}
	if r.suspect {
		out += " suspect"
	}
	return out + ")"
}
