package deadletter

import (
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/reason"
)

// Filter picks dead letters that meet all its conditions. The zero value picks every one.
type Filter struct {
	IDs    []string // the ID or Fingerprint is one of these; if empty, any
	Queue  string   // died in this queue, or in a partition of it; if empty, in any
	Source string   // as Queue, but also picks those that do not say where they died; if empty, any
	Kind   Kind     // if empty, any
	Reason string   // the Reason, or its group's, contains this text in any case; if empty, any
	Group  string   // Message.Group is this key; if empty, any

	Older time.Duration // died at least so long ago; if zero, at any time
	Newer time.Duration // died at most so long ago; if zero, at any time

	match func(*Message) bool // nil: any
}

// Everything reports whether the filter picks every dead letter.
func (f Filter) Everything() bool {
	return len(f.IDs) == 0 && f.Queue == "" && f.Source == "" && f.Kind == "" && f.Reason == "" && f.Group == "" &&
		f.Older == 0 && f.Newer == 0 && f.match == nil
}

// NeedsRecords reports whether the filter depends on the counter's records.
func (f Filter) NeedsRecords() bool { return f.Kind != "" || f.Reason != "" || f.Group != "" }

// Match reports whether the filter picks a message whose Record was looked up.
func (f Filter) Match(m *Message, now time.Time) bool { return f.early(m, now) && f.late(m) }

// early decides by the message alone. It returns false if the message is not picked.
func (f Filter) early(m *Message, now time.Time) bool {
	switch {
	case len(f.IDs) > 0 && !slices.Contains(f.IDs, m.ID) &&
		(m.Fingerprint == "" || !slices.Contains(f.IDs, m.Fingerprint)):
		return false
	case f.Queue != "" && !m.diedInQueue(f.Queue), f.Source != "" && m.Queue != "" && !m.diedInQueue(f.Source):
		return false
	case f.match != nil && !f.match(m):
		return false
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

// late decides by the record.
func (f Filter) late(m *Message) bool {
	return (f.Kind == "" || f.Kind == m.Kind()) &&
		(f.Reason == "" || contains(m.Reason(), f.Reason)) && (f.Group == "" || f.Group == m.Group())
}

// diedInQueue reports whether a message died in a queue, or in a partition of it.
func (m *Message) diedInQueue(queue string) bool { return queue == m.Origin.Queue || queue == m.Queue }

// Sought returns the text that a Filter looks for with a Reason: without blanks around it, and without the "…" with
// which commands end a reason that they cut. If it is empty, the filter picks any reason.
func Sought(text string) string { return strings.TrimSuffix(strings.TrimSpace(text), "…") }

// contains reports whether a reason contains a text in any case. The text may also be in a form in which commands
// print the reason: escaped, normalised, or cut, with "…" at its end.
func contains(why, text string) bool {
	text = strings.ToLower(Sought(text))
	if strings.Contains(strings.ToLower(why), text) || strings.Contains(strings.ToLower(printable.Text(why, "")), text) {
		return true
	}
	if strings.Contains(text, "<") { // only a normalised reason has placeholders, and normalising many takes long
		why = normalise(why)
	}
	return strings.Contains(strings.ToLower(printable.Text(strings.Join(strings.Fields(why), " "), "")), text)
}

// normalisers remember the texts that they normalised, and each serves one caller at a time.
var normalisers = sync.Pool{New: func() any { return new(reason.Normaliser) }}

func normalise(why string) string {
	n, _ := normalisers.Get().(*reason.Normaliser)
	defer normalisers.Put(n)
	return n.Normalise(why)
}
