package main

import (
	"fmt"
	"io"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/consumer"
)

// settles reports whether an order is done with.
func (e fleetEvent) settles() bool {
	return e.decision != nil &&
		(e.decision.Decision == string(consumer.Ack) || e.decision.Decision == string(consumer.DeadLetter))
}

// narrator tells what the consumers do, and which order is found out.
type narrator struct {
	crashes map[string]int // that were counted, by order
}

// line tells one event.
func (n *narrator) line(e fleetEvent) string {
	who := fmt.Sprintf("consumer %d", e.consumer)
	switch {
	case e.decision != nil:
		return who + "  " + tell(*e.decision) + n.foundOut(*e.decision)
	case e.ended != "":
		return who + "  died (" + term.Printable(e.ended, "") + "); what it held returns to the queue, and it is started again"
	}
	return fmt.Sprintf("%s  started, pid %d", who, e.pid)
}

// foundOut says how an order was found out, once a crash was counted against it.
func (n *narrator) foundOut(d decision) string {
	if d.Crashes <= n.crashes[d.ID] {
		return ""
	}
	n.crashes[d.ID] = d.Crashes
	return fmt.Sprintf("; it killed a consumer, which died while %s ran isolated (%s counted)", term.Shown(d.ID), term.Plural(d.Crashes, "crash"))
}

// tell puts a decision in words.
func tell(d decision) string {
	id := term.Shown(d.ID)
	switch consumer.Decision(d.Decision) {
	case consumer.Ack:
		if d.Redelivered || d.Attempt > 1 {
			return fmt.Sprintf("%s  handled at attempt %d, redelivered", id, d.Attempt)
		}
		return id + "  handled"
	case consumer.Retry:
		return fmt.Sprintf("%s  attempt %d of %d failed: %s; again in %v", id, d.Attempt, d.Of, term.Brief(d.Error, 80),
			time.Duration(d.WaitMS)*time.Millisecond)
	case consumer.Return:
		return id + "  back to its place at the head of the queue"
	case consumer.DeadLetter:
		return fmt.Sprintf("%s  attempt %d of %d failed: %s; to the dead-letter queue", id, d.Attempt, d.Of, term.Brief(d.Error, 80))
	case consumer.Isolate:
		return id + "  is a suspect, because a consumer died with it: it runs isolated, with no other handler beside it"
	case consumer.Leave:
		return id + "  left: it returns to the queue, and nothing is counted"
	default:
		return d.String()
	}
}

// print shows the proof.
func (v verdict) print(w io.Writer) {
	fmt.Fprintf(w, "\nThe proof, with all consumers gone:\n")
	for _, c := range v.Checks {
		mark := "ok    "
		if !c.OK {
			mark = "WRONG "
		}
		fmt.Fprintf(w, "  %s%s, says %s: %s\n", mark, c.What, c.Source, c.Got)
		if !c.OK {
			fmt.Fprintf(w, "        it must be: %s\n", c.Want)
		}
	}
	for _, r := range v.Counters {
		if r.Crashes > 0 {
			fmt.Fprintf(w, "  the order that killed its consumer, says the store: %s, which ran isolated when one died (%s counted)\n",
				term.Shown(r.ID), term.Plural(r.Crashes, "crash"))
			continue
		}
		if r.LastError != "" {
			fmt.Fprintf(w, "  the last error of %s, says the store: %s\n", term.Shown(r.ID), term.Brief(r.LastError, 80))
		}
	}
	if v.OK {
		fmt.Fprintf(w, "%d orders: %d handled, %d dead-lettered, none lost. (%.1f s)\n", v.Orders, v.Handled, len(v.DeadLetters), v.Seconds)
	}
}
