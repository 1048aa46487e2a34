package demo

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
)

// deadLetter is a message in the dead-letter queue.
type deadLetter struct {
	ID     string `json:"id"`
	Reason string `json:"reason"` // the broker's: x-death
	From   string `json:"from"`   // the queue it was in
}

// evidence is what the broker, the store and the ledger hold once all consumers have ended.
type evidence struct {
	queue          string
	left           int // messages in the queue
	deadLetters    []deadLetter
	records        []counter.Record
	attempts, done map[string]int // by order
	again          map[string]int // orders handled again after a kill that came before their ack
}

// record is what the store counted for an order.
type record struct {
	ID        string `json:"id"`
	State     string `json:"state"`
	Failures  int    `json:"failures"`
	Crashes   int    `json:"crashes"`
	LastError string `json:"last_error,omitempty"`
}

// check is one thing that has to hold.
type check struct {
	What   string `json:"what"`
	Source string `json:"source"` // of the evidence
	Want   string `json:"want"`
	Got    string `json:"got"`
	OK     bool   `json:"ok"`
}

// Verdict is the outcome of a demo.
type Verdict struct {
	OK       bool           `json:"ok"`
	Broker   string         `json:"broker"`
	Store    string         `json:"store"`
	Queue    string         `json:"queue"`
	Orders   int            `json:"orders"`
	Handled  int            `json:"handled"`
	Attempts map[string]int `json:"attempts"` // by order
	// by order: a consumer was killed before the broker had its ack
	Again       map[string]int `json:"handled_again,omitempty"`
	DeadLetters []deadLetter   `json:"dead_letters"`
	Records     []record       `json:"records"`
	Checks      []check        `json:"checks"`
	Seconds     float64        `json:"seconds"` // from the first order to the proof
}

// The states of a record, for an operator.
const (
	stateRetrying = "retrying"
	stateDead     = "dead-lettered"
	stateDone     = "done"
)

func stateOf(r counter.Record) string {
	switch r.State {
	case counter.StateDeadLetter:
		return stateDead
	case counter.StateDone:
		return stateDone
	default:
		return stateRetrying
	}
}

// judge compares the evidence with what must have become of the orders.
func judge(orders []order, e evidence) []check {
	handled, attempts := map[string]int{}, map[string]int{}
	var dead []deadLetter
	var records []string
	for _, o := range orders {
		attempts[o.ID] = o.Kind.attempts()
		switch o.Kind {
		case poisonous:
			dead = append(dead, deadLetter{ID: o.ID, Reason: "rejected", From: e.queue})
			records = append(records, record{ID: o.ID, State: stateDead, Failures: retries + 1}.line())
			continue
		case flaky:
			records = append(records, record{ID: o.ID, State: stateDone, Failures: 2}.line())
		case deadly:
			records = append(records, record{ID: o.ID, State: stateDone, Crashes: 1}.line())
		default:
		}
		handled[o.ID] = 1
	}
	for id, n := range e.again { // at-least-once delivery: nothing else may repeat an order
		handled[id] += n
		attempts[id] += n
	}
	var counted []string
	for _, r := range e.records {
		counted = append(counted, recordOf(r).line())
	}
	return []check{
		compare("orders still in the queue", "RabbitMQ", "0", fmt.Sprint(e.left)),
		compare("orders in the dead-letter queue", "RabbitMQ", deadLines(dead), deadLines(e.deadLetters)),
		compareCounts("orders handled to the end", "the ledger", handled, e.done),
		compareCounts("attempts of the handler", "the ledger", attempts, e.attempts),
		compare("what is counted", "the store", join(records), join(counted)),
	}
}

func recordOf(r counter.Record) record {
	return record{ID: r.ID, State: stateOf(r), Failures: r.Failures, Crashes: r.Crashes, LastError: r.Reason}
}

func (r record) line() string {
	return fmt.Sprintf("%s %s, %s, %s", term.Shown(r.ID), r.State, printable.Plural(r.Failures, "failure"),
		printable.Plural(r.Crashes, "crash"))
}

func compare(what, source, want, got string) check {
	return check{What: what, Source: source, Want: want, Got: got, OK: want == got}
}

// compareCounts compares how often something was done for each order. It names all orders only if they differ.
func compareCounts(what, source string, want, got map[string]int) check {
	if maps.Equal(want, got) {
		return check{What: what, Source: source, Want: inShort(want), Got: inShort(got), OK: true}
	}
	return check{What: what, Source: source, Want: inFull(want), Got: inFull(got)}
}

func inFull(counts map[string]int) string {
	var out []string
	for id, n := range counts {
		out = append(out, fmt.Sprintf("%s %d", term.Shown(id), n))
	}
	return join(out)
}

// inShort leaves out the names of those that were done once.
func inShort(counts map[string]int) string {
	once := 0
	more := maps.Clone(counts)
	maps.DeleteFunc(more, func(_ string, n int) bool {
		if n == 1 {
			once++
		}
		return n == 1
	})
	if len(more) == 0 {
		return fmt.Sprintf("%d, each once", once)
	}
	return fmt.Sprintf("%s; the other %d once each", inFull(more), once)
}

func deadLines(all []deadLetter) string {
	var out []string
	for _, d := range all {
		out = append(out, fmt.Sprintf("%s %s from %s", term.Shown(d.ID), term.Printable(d.Reason, ""), term.Shown(d.From)))
	}
	return join(out)
}

// join lists what was found, sorted.
func join(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(slices.Values(all)), "; ")
}

func newVerdict(orders []order, e evidence) Verdict {
	v := Verdict{
		OK: true, Queue: e.queue, Orders: len(orders), Attempts: e.attempts, Again: e.again, DeadLetters: e.deadLetters,
		Checks:  judge(orders, e),
		Handled: len(e.done), Records: []record{},
	}
	for _, c := range v.Checks {
		v.OK = v.OK && c.OK
	}
	for _, r := range e.records {
		v.Records = append(v.Records, recordOf(r))
	}
	return v
}
