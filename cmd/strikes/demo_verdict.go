package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

// deadLetter is a message in the dead-letter queue, as the broker hands it out.
type deadLetter struct {
	ID     string `json:"id"`
	Reason string `json:"reason"` // the broker's: x-death
	From   string `json:"from"`   // the queue it was in
}

// evidence is what the broker, the store and the ledger say once all consumers are gone.
type evidence struct {
	queue       string
	left        int // messages in the queue
	deadLetters []deadLetter
	listed      []counter.Record // of the queue
	kept        []counter.Record // of orders that were handled after all, and so are not listed any more
	runs, done  map[string]int   // by order
}

// check is one thing that has to hold.
type check struct {
	What   string `json:"what"`
	Source string `json:"source"` // who says so
	Want   string `json:"want"`
	Got    string `json:"got"`
	OK     bool   `json:"ok"`
}

// verdict is the outcome of the demo.
type verdict struct {
	OK          bool           `json:"ok"`
	Broker      string         `json:"broker"`
	Store       string         `json:"store"`
	Queue       string         `json:"queue"`
	Orders      int            `json:"orders"`
	Handled     int            `json:"handled"`
	Runs        map[string]int `json:"runs"` // of the handler, by order
	DeadLetters []deadLetter   `json:"dead_letters"`
	Counters    []record       `json:"counters"`
	Checks      []check        `json:"checks"`
	Seconds     float64        `json:"seconds"` // from the first order to the proof
}

// judge holds the evidence against what must have become of the orders.
func judge(orders []order, e evidence) []check {
	handled, runs := map[string]int{}, map[string]int{}
	var dead []deadLetter
	var counters []string
	for _, o := range orders {
		runs[o.ID] = o.Kind.runs()
		switch o.Kind {
		case poisonous:
			dead = append(dead, deadLetter{ID: o.ID, Reason: "rejected", From: e.queue})
			counters = append(counters, counterLine(o.ID, stateDead, demoRetries+1, 0))
			continue
		case flaky:
			counters = append(counters, counterLine(o.ID, stateDone, 2, 0))
		case deadly:
			counters = append(counters, counterLine(o.ID, stateDone, 0, 1))
		default:
		}
		handled[o.ID] = 1
	}
	return []check{
		compare("orders still in the queue", "RabbitMQ", "0", fmt.Sprint(e.left)),
		compare("orders in the dead-letter queue", "RabbitMQ", deadLines(dead), deadLines(e.deadLetters)),
		compareCounts("orders handled to the end", "the ledger", handled, e.done),
		compareCounts("runs of the handler", "the ledger", runs, e.runs),
		compare("what is counted", "the store", join(counters), counterLines(e)),
	}
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

// inShort does not name those that were done once.
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

func counterLine(id, state string, failures, crashes int) string {
	return fmt.Sprintf("%s %s, %s, %s", term.Shown(id), state, term.Plural(failures, "failure"), term.Plural(crashes, "crash"))
}

func counterLines(e evidence) string {
	var out []string
	for _, r := range slices.Concat(e.listed, e.kept) {
		out = append(out, counterLine(r.ID, stateOf(r), r.Failures, r.Crashes))
	}
	return join(out)
}

// join lists what was found in an order of its own.
func join(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	return strings.Join(slices.Sorted(slices.Values(all)), "; ")
}

// newVerdict sums up.
func newVerdict(orders []order, e evidence) verdict {
	v := verdict{
		OK: true, Queue: e.queue, Orders: len(orders), Runs: e.runs, DeadLetters: e.deadLetters, Checks: judge(orders, e),
		Handled: len(e.done), Counters: []record{},
	}
	for _, c := range v.Checks {
		v.OK = v.OK && c.OK
	}
	return v
}
