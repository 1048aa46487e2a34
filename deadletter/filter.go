package deadletter

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Filter picks dead letters. What it names must all hold; the zero value picks
// every one.
type Filter struct {
	IDs    []string // its ID or Fingerprint is one of these; if empty, any
	Queue  string   // that died in this queue; if empty, in any
	Kind   Kind     // if empty, any
	Reason string   // contained in the Reason, whatever the case; if empty, any

	Older time.Duration // died at least so long ago; if zero, at any time
	Newer time.Duration // died no longer ago; if zero, at any time

	// Lane and LaneValue pick by a header, as it would be printed; if Lane is
	// empty, any.
	Lane, LaneValue string
}

// Everything reports whether it picks every dead letter.
func (f Filter) Everything() bool {
	return len(f.IDs) == 0 && f.Queue == "" && f.Kind == "" && f.Reason == "" && f.Older == 0 && f.Newer == 0 && f.Lane == ""
}

// Records reports whether it takes the counter's record to decide.
func (f Filter) NeedsRecords() bool { return f.Kind != "" || f.Reason != "" }

// Match reports whether it picks a letter, whose Record is there if there is one.
func (f Filter) Match(l *Message, now time.Time) bool { return f.early(l, now) && f.late(l) }

// early decides by what the dead letter itself tells; false: it is not picked.
func (f Filter) early(l *Message, now time.Time) bool {
	switch {
	case len(f.IDs) > 0 && !f.named(l):
		return false
	case f.Queue != "" && f.Queue != l.Origin.Queue:
		return false
	case f.Lane != "":
		v, ok := l.Publishing.Headers[f.Lane]
		if !ok || fmt.Sprint(v) != f.LaneValue {
			return false
		}
	}
	if f.Older == 0 && f.Newer == 0 {
		return true
	}
	if l.Origin.Time.IsZero() { // of unknown age
		return false
	}
	age := now.Sub(l.Origin.Time)
	return age >= f.Older && (f.Newer == 0 || age <= f.Newer)
}

// named reports whether the letter is one of those that are given by name.
func (f Filter) named(l *Message) bool {
	return slices.Contains(f.IDs, l.ID) || l.Fingerprint != "" && slices.Contains(f.IDs, l.Fingerprint)
}

// late decides by the record, once it is there.
func (f Filter) late(l *Message) bool {
	return (f.Kind == "" || f.Kind == l.Kind()) &&
		(f.Reason == "" || strings.Contains(strings.ToLower(l.Reason()), strings.ToLower(f.Reason)))
}
