package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// The entries of the ledger.
const (
	entryAttempt = "attempt" // a handler begins with an order
	entryDone    = "done"    // it succeeds
)

// ledger is a file to which all consumers of the demo append a line for each attempt, in one write. It has no name, so
// it disappears with the last process that has it open.
type ledger struct{ file *os.File }

func newLedger() (*ledger, error) {
	f, err := os.CreateTemp("", "strikes-demo-")
	if err != nil {
		return nil, err
	}
	defer f.Close()
	appending, err := os.OpenFile(f.Name(), os.O_APPEND|os.O_RDWR, 0)
	if err := errors.Join(err, os.Remove(f.Name())); err != nil {
		return nil, err
	}
	return &ledger{appending}, nil
}

// enter appends a line and returns how many of its kind there are, it included.
func (l *ledger) enter(what, id string) (int, error) {
	if _, err := l.file.WriteString(what + " " + id + "\n"); err != nil {
		return 0, err
	}
	counts, err := l.counts(what)
	return counts[id], err
}

// counts returns the number of lines of a kind, by order.
func (l *ledger) counts(what string) (map[string]int, error) {
	info, err := l.file.Stat()
	if err != nil {
		return nil, err
	}
	counts := map[string]int{}
	text, err := io.ReadAll(io.NewSectionReader(l.file, 0, info.Size()))
	for line := range strings.Lines(string(text)) {
		if id, is := strings.CutPrefix(line, what+" "); is {
			counts[strings.TrimSpace(id)]++
		}
	}
	return counts, err
}

// evidence is read from the broker, the store and the ledger once all consumers have ended.
type evidence struct {
	left           int            // messages in the queue
	dead           []string       // dead letters
	counted        []string       // records
	attempts, done map[string]int // by order
}

// gather collects the evidence. The consumers have ended, so their unacked messages are back in the queue.
func (d *demo) gather(ctx context.Context) (e evidence, err error) {
	if e.attempts, err = d.ledger.counts(entryAttempt); err != nil {
		return e, err
	}
	if e.done, err = d.ledger.counts(entryDone); err != nil {
		return e, err
	}
	for _, o := range d.orders {
		records, err := d.store.Admin().Get(ctx, d.broker.VHost, d.queue, o.ID)
		if err != nil {
			return e, err
		}
		for _, r := range records {
			if r.Failures+r.Crashes > 0 {
				e.counted = append(e.counted, countedLine(r.ID, ops.StateOf(r), r.Failures, r.Crashes))
			}
		}
	}
	queue := broker.DeadLetterQueueFor(d.queue)
	err = d.broker.With(ctx, func(conn *amqp.Connection) error {
		return broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			// a dead letter that takes longer from one queue to the other is for the verdict
			_ = poll.Until(ctx, 5*time.Second, "the dead letter", func() error {
				q, err := broker.Passive(ch, queue)
				if err == nil && q.Messages == 0 {
					err = errors.New("none")
				}
				return err
			})
			q, err := broker.Passive(ch, d.queue)
			if err != nil {
				return err
			}
			e.left = q.Messages
			e.dead, err = deadLines(ch, queue)
			return err
		})
	})
	return e, err
}

// deadLines is a line for each message of a dead-letter queue. They stay in it: the broker requeues them when the
// channel is closed.
func deadLines(ch *amqp.Channel, queue string) (all []string, err error) {
	for {
		d, ok, err := ch.Get(queue, false)
		if err != nil || !ok {
			return all, err
		}
		line := printable.Name(d.MessageId)
		if deaths := broker.Deaths(d.Headers); len(deaths) > 0 {
			line = deadLine(d.MessageId, deaths[0].Reason, deaths[0].Queue)
		}
		all = append(all, line)
	}
}

func deadLine(id, reason, from string) string {
	return fmt.Sprintf("%s %s from %s", printable.Name(id), printable.Text(reason, ""), printable.Name(from))
}

func countedLine(id string, state ops.State, failures, crashes int) string {
	return fmt.Sprintf("%s %s, %s, %s", printable.Name(id), state, printable.Plural(failures, "failure"),
		printable.Plural(crashes, "crash"))
}

// verdict is the outcome of a demo.
type verdict struct {
	OK           bool    `json:"ok"`
	Broker       string  `json:"broker"`
	Store        string  `json:"store"`
	Queue        string  `json:"queue"`
	Orders       int     `json:"orders"`
	Handled      int     `json:"handled"`
	DeadLettered int     `json:"dead_lettered"`
	Checks       []check `json:"checks"`
	Seconds      float64 `json:"seconds"` // from the first order to the proof
}

// check is one thing that has to hold.
type check struct {
	What   string `json:"what"`
	Source string `json:"source"` // of the evidence
	Want   string `json:"want"`
	Got    string `json:"got"`
	OK     bool   `json:"ok"`
}

// judge compares the evidence with the right ends of the orders.
func (v *verdict) judge(orders []order, e evidence) {
	handled, attempts := map[string]int{}, map[string]int{}
	var dead, counted []string
	for _, o := range orders {
		handled[o.ID], attempts[o.ID] = 1, 1
		switch o.Kind {
		case flaky:
			attempts[o.ID] = 3
			counted = append(counted, countedLine(o.ID, ops.Done, 2, 0))
		case deadly:
			attempts[o.ID] = demoKills + 1
			counted = append(counted, countedLine(o.ID, ops.Done, 0, 1))
		case poisonous:
			handled[o.ID], attempts[o.ID] = 0, demoRetries+1
			counted = append(counted, countedLine(o.ID, ops.DeadLettered, demoRetries+1, 0))
			dead = append(dead, deadLine(o.ID, "rejected", v.Queue))
		}
	}
	v.Orders, v.Handled, v.DeadLettered, v.OK = len(orders), len(e.done), len(e.dead), true
	for _, c := range []check{
		{What: "orders still in the queue", Source: "RabbitMQ", Want: "0", Got: strconv.Itoa(e.left)},
		{What: "orders in the dead-letter queue", Source: "RabbitMQ", Want: sortedLines(dead), Got: sortedLines(e.dead)},
		{What: "orders handled to the end", Source: "the ledger", Want: countsText(handled, e.done),
			Got: countsText(e.done, handled)},
		{What: "attempts of the handler", Source: "the ledger", Want: countsText(attempts, e.attempts),
			Got: countsText(e.attempts, attempts)},
		{What: "counts", Source: "the store", Want: sortedLines(counted), Got: sortedLines(e.counted)},
	} {
		c.OK = c.Want == c.Got
		v.OK = v.OK && c.OK
		v.Checks = append(v.Checks, c)
	}
}

// countsText says how often something was done for each order. It does not name those for which it was done once. The
// orders of others are those of counts too.
func countsText(counts, others map[string]int) string {
	all := maps.Clone(others)
	maps.Copy(all, counts)
	var odd []string
	once := 0
	for id := range all {
		if counts[id] == 1 {
			once++
		} else {
			odd = append(odd, fmt.Sprintf("%s %d", printable.Name(id), counts[id]))
		}
	}
	return sortedLines(append(odd, fmt.Sprintf("the other %d once each", once)))
}

func sortedLines(all []string) string {
	if len(all) == 0 {
		return "none"
	}
	slices.Sort(all)
	return strings.Join(all, "; ")
}

// print shows the proof.
func (v *verdict) print(w io.Writer) {
	fmt.Fprintf(w, "\nThe proof, after all consumers have ended:\n")
	for _, c := range v.Checks {
		result := "ok    "
		if !c.OK {
			result = "WRONG "
		}
		fmt.Fprintf(w, "  %s%s, says %s: %s\n", result, c.What, c.Source, c.Got)
		if !c.OK {
			fmt.Fprintf(w, "        it must be: %s\n", c.Want)
		}
	}
	if v.OK {
		fmt.Fprintf(w, "%d orders: %d handled, %d dead-lettered, none lost. (%.1f s)\n", v.Orders, v.Handled, v.DeadLettered,
			v.Seconds)
	}
}
