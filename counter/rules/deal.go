package rules

import (
	"slices"
	"strings"
	"time"
)

const (
	// DealLease is how long a process keeps its partitions without a read. Processes read once a second.
	DealLease = 5 * time.Second
	// dealSilence is the time without a read of any process after which the store counts as having been away.
	dealSilence = 3 * time.Second
	// dealRenewal is the least time between two noted reads of a process, so that few reads are writes.
	dealRenewal = 900 * time.Millisecond
)

// Deal says which process consumes which partitions of a queue. A deal decides who subscribes. The broker decides who
// receives, so a wrong or late deal may be uneven, and breaks no order. The zero value is a new deal.
type Deal struct {
	Partitions int
	Read       time.Time // the last noted read of a process
	Patient    time.Time // until then no process expires, because the store was away
	Asked      time.Time // until then a partition without a process is left to one that says it consumes it
	Members    []Member  // by token
}

// Member is a process in a Deal.
type Member struct {
	Token      string
	Consumer   string    // the process, for people
	Read       time.Time // the last noted read
	Partitions []int     // ascending
}

// DealRead is a read of a Deal by a process.
type DealRead struct {
	Token      string // unique to the process and queue
	Consumer   string // the process, for people
	Left       bool   // this is its last read
	Partitions int    // how many the queue has
	Consumes   []int  // by the last deal that it knows
}

// Deal notes a read, and returns the partitions that the reader shall consume and whether the deal is to be saved.
// Processes that have not read for DealLease lose their partitions. Partitions without a process go to the one with the
// fewest. Then single partitions move from the process with the most to the one with the fewest, until their numbers
// differ by one at most. ok is false if live processes share another number of partitions. Their deal then stays, and
// the read is noted.
func (d *Deal) Deal(r DealRead, now time.Time) (mine []int, changed, ok bool) {
	changed = d.setBack(now)
	if !d.Read.IsZero() && now.Sub(d.Read) > dealSilence {
		d.Patient, changed = now.Add(DealLease), true
	}
	before := len(d.Members)
	d.Members = slices.DeleteFunc(d.Members, func(m Member) bool {
		return m.Token == r.Token && r.Left ||
			m.Token != r.Token && now.Sub(m.Read) > DealLease && !now.Before(d.Patient)
	})
	changed = changed || len(d.Members) != before
	if d.Partitions != r.Partitions {
		if r.Left { // it had none of these
			return nil, changed, true
		}
		if slices.ContainsFunc(d.Members, func(m Member) bool { return m.Token != r.Token }) {
			if now.Sub(d.Read) >= dealRenewal { // else the store would seem to have been away, and no process would expire
				d.Read, changed = now, true
			}
			return nil, changed, false
		}
		*d, changed = Deal{Partitions: r.Partitions, Read: now}, true
	}
	if !r.Left {
		if len(d.Members) == 0 && len(r.Consumes) > 0 { // the store was emptied
			d.Asked = now.Add(DealLease)
		}
		changed = d.note(r, now) || changed
	}
	changed = d.give(r, now) || changed
	if i := d.find(r.Token); i >= 0 {
		mine = slices.Clone(d.Members[i].Partitions)
	}
	return mine, changed, true
}

// setBack moves times that are ahead of the store's clock back to now, and reports whether it moved any. The deal must
// be saved then. Otherwise no member expires until the clock has caught up.
func (d *Deal) setBack(now time.Time) (moved bool) {
	moved = setBack(now, &d.Read)
	for i := range d.Members {
		moved = setBack(now, &d.Members[i].Read) || moved
	}
	return setBack(now.Add(DealLease), &d.Patient, &d.Asked) || moved
}

func (d *Deal) find(token string) int {
	return slices.IndexFunc(d.Members, func(m Member) bool { return m.Token == token })
}

// note notes that a process has read.
func (d *Deal) note(r DealRead, now time.Time) (changed bool) {
	i := d.find(r.Token)
	if i < 0 {
		d.Members = append(d.Members, Member{Token: r.Token, Consumer: r.Consumer})
		slices.SortFunc(d.Members, func(a, b Member) int { return strings.Compare(a.Token, b.Token) })
		i = d.find(r.Token)
	}
	if m := &d.Members[i]; now.Sub(m.Read) >= dealRenewal {
		m.Read, d.Read, changed = now, now, true
	}
	return changed
}

// give gives each partition to a process, and evens their numbers.
func (d *Deal) give(r DealRead, now time.Time) (changed bool) {
	if len(d.Members) == 0 {
		return false
	}
	of := make([]int, d.Partitions) // the index of its member, plus one
	for i, m := range d.Members {
		for _, p := range m.Partitions {
			of[p] = i + 1
		}
	}
	for p := range of {
		reader := d.find(r.Token)
		switch {
		case of[p] != 0:
		case reader >= 0 && slices.Contains(r.Consumes, p):
			d.take(reader, p)
			changed = true
		case !now.Before(d.Asked):
			least, _ := d.byLoad()
			d.take(least, p)
			changed = true
		}
	}
	for {
		least, most := d.byLoad()
		have := d.Members[most].Partitions
		if len(have)-len(d.Members[least].Partitions) <= 1 {
			return changed
		}
		last := len(have) - 1
		d.take(least, have[last])
		d.Members[most].Partitions, changed = slices.Delete(have, last, last+1), true
	}
}

func (d *Deal) take(i, p int) {
	m := &d.Members[i]
	m.Partitions = append(m.Partitions, p)
	slices.Sort(m.Partitions)
}

// byLoad returns the processes with the fewest and with the most partitions; of several, the first.
func (d *Deal) byLoad() (least, most int) {
	for i, m := range d.Members {
		if len(m.Partitions) < len(d.Members[least].Partitions) {
			least = i
		}
		if len(m.Partitions) > len(d.Members[most].Partitions) {
			most = i
		}
	}
	return least, most
}
