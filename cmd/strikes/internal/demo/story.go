package demo

import (
	"fmt"
	"io"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/printable"
)

// settles reports whether an order was acked or dead-lettered.
func (e event) settles() bool {
	return e.report != nil && (e.report.Decision == consumer.OutcomeAck || e.report.Decision == consumer.OutcomeDeadLetter)
}

// narrator tells what the consumers do.
type narrator struct {
	crashes map[string]int // that were counted, by order
}

// line tells one event.
func (n *narrator) line(e event) string {
	who := fmt.Sprintf("consumer %d", e.consumer)
	switch {
	case e.report != nil:
		return who + "  " + e.report.text() + n.crashed(*e.report)
	case e.ended != "":
		return who + "  died (" + term.Printable(e.ended, "") + "); its messages return to the queue, and it is started again"
	}
	return fmt.Sprintf("%s  started, pid %d", who, e.pid)
}

// crashed tells of a crash that was counted since the last report of an order.
func (n *narrator) crashed(r report) string {
	if r.Crashes <= n.crashes[r.ID] {
		return ""
	}
	n.crashes[r.ID] = r.Crashes
	return fmt.Sprintf("; it killed a consumer, which died while %s ran isolated (%s counted)", term.Shown(r.ID),
		printable.Plural(r.Crashes, "crash"))
}

// text puts a report in words.
func (r report) text() string {
	id, problem := term.Shown(r.ID), term.Brief(r.Error, 80)
	switch r.Decision {
	case consumer.OutcomeAck:
		if r.Redelivered || r.Attempt > 1 {
			return fmt.Sprintf("%s  handled at attempt %d, redelivered", id, r.Attempt)
		}
		return id + "  handled"
	case consumer.OutcomeRetry:
		return fmt.Sprintf("%s  attempt %d of %d failed: %s; again in %v", id, r.Attempt, r.Of, problem, r.Wait)
	case consumer.OutcomeRequeue:
		return id + "  requeued at the head of the queue"
	case consumer.OutcomeDeadLetter:
		return fmt.Sprintf("%s  attempt %d of %d failed: %s; to the dead-letter queue", id, r.Attempt, r.Of, problem)
	case consumer.OutcomeIsolate:
		return id + "  is a suspect, because a consumer died with it: it runs isolated, with no other handler beside it"
	case consumer.OutcomeLeave:
		return id + "  left: it returns to the queue, and nothing is counted"
	default:
		return fmt.Sprintf("%s  %s: %s", id, r.Decision, problem)
	}
}

// print shows the proof.
func (v Verdict) print(w io.Writer) {
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
	for _, r := range v.Records {
		if r.Crashes > 0 {
			fmt.Fprintf(w, "  the order that killed its consumer, says the store: %s, which ran isolated when one died (%s "+
				"counted)\n",
				term.Shown(r.ID), printable.Plural(r.Crashes, "crash"))
			continue
		}
		if r.LastError != "" {
			fmt.Fprintf(w, "  the last error of %s, says the store: %s\n", term.Shown(r.ID), term.Brief(r.LastError, 80))
		}
	}
	for id, n := range v.Again {
		fmt.Fprintf(w, "  %s was handled %s more: its consumer was killed before the broker had the ack\n", term.Shown(id),
			printable.Plural(n, "time"))
	}
	if v.OK {
		fmt.Fprintf(w, "%d orders: %d handled, %d dead-lettered, none lost. (%.1f s)\n", v.Orders, v.Handled,
			len(v.DeadLetters), v.Seconds)
	}
}
