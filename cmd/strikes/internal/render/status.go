package render

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/ops"
)

type page struct{ strings.Builder }

func (p *page) add(format string, args ...any) { fmt.Fprintf(p, format+"\n", args...) }

// Status is a status as text.
func Status(s ops.Status) string {
	var p page
	queue := shell.Operands(s.Queue)
	p.add("%s  %s in virtual host %s", s.Time.Format(time.RFC3339), printable.Name(s.Queue),
		printable.Name(s.VHost))
	p.flow(s)
	p.partitions(s.Partitions, queue)
	if s.Paused != nil {
		p.paused(s)
	}
	if b := s.Breaker; b != nil {
		p.add("breaker    %s", b.Text(s.Time))
		if b.Stops() {
			p.add("           strikes resume %s lets all go on at once; a success does too", queue)
		}
	}
	if s.Undecodable != "" {
		from := shell.Word(s.Queue)
		if len(s.Partitions) > 0 {
			from = "PARTITION"
		}
		p.add("undecoded  a message ends every session that receives it: %s", printable.Line(s.Undecodable, 300))
		p.add("           a quorum queue dead-letters it at its delivery limit; on a queue without one stop the consumers, " +
			"and")
		p.add("           strikes dead drop --dead-letter-queue %s --undecodable --to FILE %s", from, queue)
	}
	if s.Limit != nil {
		p.add("limit      %s", Limit(*s.Limit))
	}
	p.retrying(s)
	p.waiting(s)
	if s.BlockedLanes > 0 {
		p.add("lanes      %d blocked; strikes lane list %s shows what blocks them", s.BlockedLanes, queue)
	}
	p.deadLetters(s.Dead, queue)
	for _, f := range s.Findings {
		p.add("%s", printable.Text(fmt.Sprintf("%-10s %s: %s; %s", f.Severity, f.Code, f.Seen, f.Impact), ""))
	}
	if len(s.Findings) > 0 {
		p.add("           strikes doctor %s says how to fix it", queue)
	}
	for _, n := range s.Notes {
		p.add("note       %s", printable.Text(n, ""))
	}
	return p.String()
}

func (p *page) paused(s ops.Status) {
	text := s.Paused.Text()
	if s.Holding == nil {
		p.add("paused    %s; strikes resume ends it", text)
		return
	}
	p.add("paused    %s", text)
	message := shell.Operands(s.Queue, s.Holding.ID)
	p.add("blocked by %s for %s: exhausted, %s", printable.Name(s.Holding.ID),
		printable.Rough(s.Time.Sub(s.Holding.Since)), printable.Line(string(s.Holding.Cause), 40))
	p.add("           strikes limit set --id %s --max-retries N --why TEXT %s lets it fail again",
		shell.Word(s.Holding.ID), shell.Operands(s.Queue))
	p.add("           strikes skip --why TEXT %s dead-letters it", message)
	p.add("           strikes counter reset --why TEXT %s gives it all its attempts again", message)
}

func (p *page) flow(s ops.Status) {
	consumers := "no consumer"
	if s.Consumers != nil && *s.Consumers > 0 {
		consumers = printable.Plural(*s.Consumers, "consumer")
	}
	p.add("depth      %s ready, %s", known(s.Ready), consumers)
	if s.Unacked != nil && s.Rates != nil { // the management API does not say when it measured them
		p.add("earlier    %d unacked, %.1f/s in, %.1f/s out, %.1f/s acked (up to 10 s ago)", *s.Unacked,
			s.Rates.In, s.Rates.Out, s.Rates.Acked)
	}
	silent := slices.DeleteFunc(slices.Clone(s.Processes), func(c ops.Consumer) bool { return !c.Silent })
	slices.SortStableFunc(silent, func(a, b ops.Consumer) int { return cmp.Compare(a.Ago, b.Ago) })
	for i, process := range silent {
		if i == mostSilent && len(silent) > mostSilent+1 {
			p.add("           and %d more; a process that died is listed for a minute", len(silent)-mostSilent)
			break
		}
		p.add("silent     %s: %s", printable.Name(process.Consumer), process.Silence())
	}
}

// mostSilent is how many silent processes have a line each. There are many if processes die again and again.
const mostSilent = 3

// partitions sums up the partitions, and names those that nothing consumes.
func (p *page) partitions(all []ops.Partition, queue string) {
	if len(all) == 0 {
		return
	}
	of, idle := map[string]bool{}, []string{}
	var missing page
	for _, one := range all {
		switch {
		case one.Missing:
			missing.add("           %s does not exist; strikes doctor %s says what to do", printable.Name(one.Queue),
				queue)
		case one.Away:
			missing.add("           the node of %s is down; strikes doctor %s says what to do",
				printable.Name(one.Queue), queue)
		case one.Consumers == 0:
			idle = append(idle, printable.Name(one.Queue))
		}
		if one.Process != "" {
			of[one.Process] = true
		}
	}
	p.add("partitions %d, dealt to %s", len(all), printable.Plural(len(of), "process"))
	p.WriteString(missing.String())
	if len(idle) > 0 && len(idle) < len(all) {
		p.add("           no consumer: %s", strings.Join(idle, ", "))
	}
}

// Partitions is a line for each partition.
func Partitions(s ops.Status) string {
	var p page
	for _, one := range s.Partitions {
		parts := []string{fmt.Sprintf("  %s  %d ready", printable.Name(one.Queue), one.Ready)}
		if one.Unacked != nil {
			parts = append(parts, fmt.Sprintf("%d unacked up to 10 s ago", *one.Unacked))
		}
		process := "no process"
		if one.Process != "" {
			process = printable.Name(one.Process)
		}
		parts = append(parts, printable.Plural(one.Consumers, "consumer"), process)
		if !one.BlockedSince.IsZero() {
			parts = append(parts, fmt.Sprintf("%s, one for %s", printable.Plural(one.BlockedLanes, "blocked lane"),
				printable.Rough(s.Time.Sub(one.BlockedSince))))
		}
		p.add("%s", strings.Join(parts, ", "))
	}
	return p.String()
}

func (p *page) retrying(s ops.Status) {
	if s.Retrying == 0 {
		p.add("retrying   no message")
		return
	}
	p.add("retrying   %s", printable.Plural(s.Retrying, "message"))
	for _, m := range s.Blocking {
		p.message(m, s.Time)
	}
	if more := s.Retrying - len(s.Blocking); more > 0 {
		p.add("  and %d more", more)
	}
}

func (p *page) message(m ops.Message, now time.Time) {
	parts := []string{m.Which(), m.Doing(now)}
	if m.Failures+m.Crashes > 0 {
		parts = append(parts, "failing for "+printable.Rough(now.Sub(m.Since)))
	}
	if m.Suspect {
		parts = append(parts, "suspect")
	}
	if m.Skipped {
		parts = append(parts, "skipped: dead-lettered at its next step")
	}
	if m.Duplicate {
		parts = append(parts, "possible duplicate")
	}
	p.add("  %s", printable.Name(m.ID))
	p.add("      %s", strings.Join(parts, ", "))
	if m.LastError != "" {
		p.add("      %s", printable.Line(m.LastError, 200))
	}
	if m.Consumer != "" {
		with := "last with"
		if m.Runs() {
			with = "with"
		}
		p.add("      %s %s", with, printable.Line(m.Consumer, 80))
	}
}

// waiting shows messages that may have no record.
func (p *page) waiting(s ops.Status) {
	for _, w := range s.Waiting {
		where := printable.Plural(len(w.Consumers), "process")
		if len(w.Consumers) == 1 {
			where = printable.Line(w.Consumers[0], 80)
		}
		p.add("waiting    %s for %s in %s: their attempts are not counted",
			printable.Plural(w.Messages, "message"), printable.Rough(s.Time.Sub(w.Since)), where)
		if w.Why != "" {
			p.add("      %s", printable.Line(w.Why, 200))
		}
	}
}

const shownReasons = 5

func (p *page) deadLetters(d ops.DeadLetters, queue string) {
	switch {
	case d.Unrecorded > 0 && d.Count == 0:
		p.add("dead       none that the store knows")
	case d.Count == 0:
		p.add("dead       none")
	case d.Still != d.Count:
		p.add("dead       %d of %d since %s", d.Still, d.Count, d.Since.Format(time.RFC3339))
	default:
		p.add("dead       %d since %s", d.Still, d.Since.Format(time.RFC3339))
	}
	p.add("           %s", d.Holding())
	if d.Missing > 0 {
		p.add("missing    %s", d.Lost())
		p.add("           strikes counter reset --why TEXT %s ID accepts that one is gone; else it is "+
			"missing until its record expires", queue)
	}
	if d.Waiting > 0 {
		p.add("           the broker retries what waits about every 3 minutes")
	}
	others := d.Others
	for i, r := range d.Reasons {
		if i < shownReasons {
			why := printable.Why(r.Reason, longest)
			if r.Kind != "" && r.Kind != deadletter.KindFailed {
				why += fmt.Sprintf(" (%s)", r.Kind)
			}
			p.add("  %7d  %s", r.Count, why)
		} else {
			others += r.Count
		}
	}
	if others > 0 {
		p.add("  %7d  with other reasons", others)
	}
	if d.Unknown > 0 {
		p.add("  %7d  without a known reason: the record was not read", d.Unknown)
	}
}

// delayQueues shows the delay queues of the virtual host, and the messages that it could not return.
func (p *page) delayQueues(all []ops.DelayQueue) {
	var depths []string
	waiting, lost := 0, 0
	for _, q := range all {
		if q.Lost() {
			lost = q.Messages
			continue
		}
		waiting += q.Messages
		depths = append(depths, fmt.Sprintf("%s %d", strings.TrimPrefix(q.Queue, broker.DelayExchange+"."), q.Messages))
	}
	if len(depths) > 0 {
		p.add("delayed    %s of all queues: %s", printable.Plural(waiting, "message"),
			strings.Join(depths, ", "))
	}
	if lost > 0 {
		p.add("lost       %s: %s came back to a queue that was gone; see "+
			"docs/operations.md#messages-have-lost-their-queue", broker.DelayLost,
			printable.Plural(lost, "message"))
	}
}
