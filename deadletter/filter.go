package deadletter

import (
	"fmt"
	"slices"
	"strings"
	"time"
)

// Filter picks dead letters that meet all its conditions. The zero value picks every one.
type Filter struct {
	IDs    []string // the ID or Fingerprint is one of these; if empty, any
	Queue  string   // died in this queue; if empty, in any
	Kind   Kind     // if empty, any
	Reason string   // the Reason contains this text in any case; if empty, any

	Older time.Duration // died at least so long ago; if zero, at any time
	Newer time.Duration // died at most so long ago; if zero, at any time

	// Lane is a header and LaneValue its printed value; if Lane is empty, any.
	Lane, LaneValue string

	match func(*Message) bool // nil: any
}

// Everything reports whether the filter picks every dead letter.
func (f Filter) Everything() bool {
	return len(f.IDs) == 0 && f.Queue == "" && f.Kind == "" && f.Reason == "" && f.Older == 0 && f.Newer == 0 && f.Lane == "" && f.match == nil
}

// NeedsRecords reports whether the filter depends on the counter's records.
func (f Filter) NeedsRecords() bool { return f.Kind != "" || f.Reason != "" }

// Match reports whether the filter picks a message whose Record was looked up.
func (f Filter) Match(m *Message, now time.Time) bool { return f.early(m, now) && f.late(m) }

// early decides by the message alone. It returns false if the message is not picked.
func (f Filter) early(m *Message, now time.Time) bool {
	switch {
	case len(f.IDs) > 0 && !f.named(m):
		return false
	case f.Queue != "" && f.Queue != m.Origin.Queue:
		return false
	case f.match != nil && !f.match(m):
		return false
	case f.Lane != "":
		v, ok := m.Publishing.Headers[f.Lane]
		if !ok || fmt.Sprint(v) != f.LaneValue {
			return false
		}
	}
	if f.Older == 0 && f.Newer == 0 {
		return true
	}
	if m.Origin.Time.IsZero() { // of unknown age
		return false
	}
	age := now.Sub(m.Origin.Time)
	return age >= f.Older && (f.Newer == 0 || age <= f.Newer)
}

// named reports whether the message is one of IDs.
func (f Filter) named(m *Message) bool {
	return slices.Contains(f.IDs, m.ID) || m.Fingerprint != "" && slices.Contains(f.IDs, m.Fingerprint)
}

// late decides by the record.
func (f Filter) late(m *Message) bool {
	return (f.Kind == "" || f.Kind == m.Kind()) &&
		(f.Reason == "" || strings.Contains(strings.ToLower(m.Reason()), strings.ToLower(f.Reason)))
}
