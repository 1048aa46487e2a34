package ops

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
)

// DeadLetters counts the messages that consumers dead-lettered, and where they are now.
type DeadLetters struct {
	Count   int64     `json:"count"`               // tombstones
	Since   time.Time `json:"since,omitzero"`      // the first
	Removed int64     `json:"removed,omitempty"`   // of Count: replayed or dropped, as the store knows
	Expired int64     `json:"expired,omitempty"`   // of Count: they are not in Queue, and the store has no record any more
	Still   int64     `json:"still_dead"`          // of Count, without Removed and Expired
	Reasons []*Group  `json:"reasons,omitempty"`   // the largest groups
	Others  int       `json:"others,omitempty"`    // with rarer reasons
	Unknown int64     `json:"no_reason,omitempty"` // of Still: no record that was read has the reason

	Queue string `json:"queue"`           // empty: see Landings
	Holds *int   `json:"holds,omitempty"` // ready in Queue, by AMQP; nil: there is no such queue, or it may not be seen
	Out   int    `json:"out,omitempty"`   // with consumers of Queue
	Taken *int64 `json:"taken,omitempty"` // at least so many left Queue since the broker began to count

	// Landings are the queues in which they land, if these are several: Missing is not known then.
	Landings []Landing `json:"landings,omitempty"`

	// not of Count: dead-lettered without an attempt, behind another of their lane
	Blocked int64 `json:"blocked,omitempty"`

	// Unrecorded are messages in Queue beyond Still and Blocked. Their records were reset, or they are of another queue.
	// Else the broker or another program dead-lettered them, or the store has lost its data. It is 0 while Queue is in
	// use.
	Unrecorded int64 `json:"unrecorded,omitempty"`

	Waiting int `json:"waiting,omitempty"` // in the source queue for the dead-letter route

	// Missing is how many of Count and Blocked are neither held nor known to have been taken. Unclear is how many may
	// be: the queue is not at rest, and the figures are not of one moment. A dead letter whose record expired, or was
	// reset, is not missing. Queue may still hold it, so each of these may hide one that is.
	Missing int64 `json:"missing"`
	Unclear int64 `json:"unclear,omitempty"`

	WaitingSeen bool `json:"-"` // Waiting is known: the management API answered

	away      bool  // the node of Queue is down
	consumers int   // of Queue
	moving    bool  // the management API is behind AMQP
	recent    int64 // of Count and Blocked, so late that they may be on their way
}

const (
	// Arriving is how long a dead letter may be on its way to the queue where it is counted. A consumer holds it after a
	// restart of the broker. One that a quorum queue keeps for its route is up to 10 s old (measured: 9 s on 4.3.6, 6 s
	// on 3.10.8).
	Arriving = 12 * time.Second
	// maxReasons is how many groups are listed; the rest is summed up.
	maxReasons = 20
)

// TakenByOthers is how many messages other programs are known to have taken from Queue.
func (d DeadLetters) TakenByOthers() int64 {
	if d.Taken != nil {
		return max(*d.Taken-d.Removed, 0)
	}
	return 0
}

// counted takes the counts of the store.
func (d *DeadLetters) counted(kept counter.Summary) {
	t := kept.Tombstones
	d.Count, d.Removed, d.Expired, d.Since = t.Count, t.Removed, t.Expired, t.Since
	d.Blocked, d.recent = kept.Blocked.Count, int64(kept.Recent)+kept.Blocked.Recent
	d.remain()
}

// remain finds how many are still dead. A message in Queue is dead, even if its record expired or belongs to another
// message with its id.
func (d *DeadLetters) remain() {
	if d.Holds != nil {
		here := int64(*d.Holds) + int64(d.Out) + int64(d.Waiting) - d.Blocked
		d.Expired = min(d.Expired, max(d.Count-d.Removed-here, 0))
	}
	d.Still = max(d.Count-d.Removed-d.Expired, 0)
}

// explain lists the reasons, and counts the dead letters without a known one: their records are gone, or were not read.
func (d *DeadLetters) explain(of Groups) {
	d.remain()
	for _, g := range of.Groups {
		if g.Key != "" && len(d.Reasons) < maxReasons {
			d.Reasons = append(d.Reasons, g)
		} else {
			d.Others += g.Count
		}
	}
	d.Unknown = max(d.Still-int64(of.Count), 0)
}

// compare adds the facts of the management API about Queue. It is behind AMQP, or the queue is in use, if the two
// differ.
func (d *DeadLetters) compare(load broker.Load) {
	if d.consumers > 0 {
		d.Out = load.Unacked
	}
	d.Taken, d.moving = &load.Taken, load.Ready != *d.Holds || load.Unacked > 0
}

// judge compares the number of dead-lettered messages with the messages in the dead-letter queue. It also counts those
// that the store does not know.
func (d *DeadLetters) judge() {
	if d.Holds == nil {
		return
	}
	d.remain()
	gone := d.Removed + max(d.Expired, d.TakenByOthers()) // others take the oldest first
	open := max(d.Count+d.Blocked-int64(*d.Holds)-int64(d.Waiting)-gone, 0)
	if d.consumers > 0 || d.moving {
		d.Unclear = open
		return
	}
	d.Unclear = min(open, d.recent)
	d.Missing = open - d.Unclear
	d.Unrecorded = max(int64(*d.Holds)-d.Still-d.Blocked, 0)
}

// suppose takes the unacked messages of the source queue for dead letters while the route is broken, because consumers
// hold dead letters until it is whole. unacked is nil if it is not known.
func (d *DeadLetters) suppose(route []inspect.Finding, consumers int, unacked *int) {
	if consumers == 0 || !slices.ContainsFunc(route, losesDeadLetters) {
		return
	}
	held := d.Missing
	if unacked != nil {
		held = min(held, int64(*unacked))
	}
	d.Missing -= held
	d.Unclear += held
}

// Holding says where the dead letters are. It is escaped.
func (d DeadLetters) Holding() string {
	switch {
	case d.away:
		return "unknown whether they arrived: the queue " + printable.Name(d.Queue) + " does not answer"
	case len(d.Landings) > 0:
		var each []string
		for _, l := range d.Landings {
			holds := "not seen"
			if l.Holds != nil {
				holds = fmt.Sprintf("holds %d", *l.Holds)
			}
			each = append(each, printable.Name(l.Queue)+" "+holds)
		}
		return "unknown whether all arrived: they land in several queues, and --dead-letter-queue looks at one: " +
			strings.Join(each, ", ")
	case d.Holds == nil:
		return "unknown whether they arrived: there is no queue " + printable.Name(d.Queue) +
			" (--dead-letter-queue names another)"
	}
	var consumed int64 // at least; 0 if commands of strikes took them all
	if d.TakenByOthers() > 0 {
		consumed = *d.Taken
	}
	text := fmt.Sprintf("%s holds %d", printable.Name(d.Queue), *d.Holds)
	if d.Unrecorded > 0 {
		text += fmt.Sprintf(" (%d not known to the store)", d.Unrecorded)
	}
	for _, more := range []struct {
		n      int64
		format string
	}{
		{d.Blocked, ", %d in blocked lanes"},
		{int64(d.Out), ", %d unacked by its consumers"},
		{int64(d.Waiting), ", %d waiting in the source queue for the dead-letter route"},
		{d.Removed, ", %d replayed or dropped"},
		{d.Expired, ", %d whose records expired"},
		{consumed, ", at least %d consumed from it in all"},
		{d.Unclear, ", %d on the way or in use"},
	} {
		if more.n > 0 {
			text += fmt.Sprintf(more.format, more.n)
		}
	}
	return text
}

// Lost says in which ways the missing dead letters may have gone.
func (d DeadLetters) Lost() string {
	text := fmt.Sprintf("%d unaccounted for: expired, consumed elsewhere, taken off by a command that was killed, or lost",
		d.Missing)
	if !d.WaitingSeen {
		text += "; or waiting in the source queue, which only the management API shows"
	}
	return text
}

// losesDeadLetters reports whether a finding is an error of the dead-letter route.
func losesDeadLetters(f inspect.Finding) bool {
	return f.Severe() && f.OfRoute()
}
