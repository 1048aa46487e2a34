package render

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// DeadLetters returns a list of dead letters as a table, or as JSON lines.
func DeadLetters(w io.Writer, asJSON bool) List[*deadletter.Message] {
	return newList(w, asJSON, func(m *deadletter.Message) any { return deadLetterOf(m) },
		func(m *deadletter.Message) []string {
			failures, crashes, replays := "-", "-", "-"
			if m.Record != nil {
				failures, crashes = fmt.Sprint(m.Record.Failures), fmt.Sprint(m.Record.Crashes)
			}
			if m.Size != deadletter.SizeUnknown { // the record does not count them
				replays = fmt.Sprint(m.Replays)
			}
			return []string{
				printable.Name(m.Name()), term.Ago(m.Origin.Time), string(m.Kind()), failures, crashes, replays,
				printable.Why(m.Reason(), longest),
			}
		}, "ID", "DIED", "KIND", "FAILURES", "CRASHES", "REPLAYS", "REASON")
}

// DeadLetter prints everything about a dead letter.
func DeadLetter(w io.Writer, m *deadletter.Message) error {
	var f term.Fields
	id := "none"
	if m.ID != "" {
		id = printable.Name(m.ID)
	}
	f.Add("id", id)
	f.Add("fingerprint", m.Fingerprint)
	f.Add("kind", string(m.Kind()))
	f.Add("reason", m.Reason())
	f.Add("record", noRecord(m))
	if o := m.Origin; o.Queue != "" {
		f.Add("died in", printable.Name(o.Queue))
		f.Add("broker's reason", o.Reason)
		f.Add("died", o.Time.UTC().Format(time.RFC3339))
		if m.Size != deadletter.SizeUnknown { // the record does not keep it
			f.Add("published to", "exchange "+printable.Name(o.Exchange)+", key "+printable.Name(o.Key))
		}
	}
	if r := m.Record; r != nil {
		f.Add("failures", fmt.Sprint(r.Failures))
		f.Add("crashes", fmt.Sprint(r.Crashes))
		if !r.FirstTime.IsZero() { // else an operator reset it
			f.Add("first failed attempt", r.FirstTime.Format(time.RFC3339))
			f.Add("last failed attempt", r.LastTime.Format(time.RFC3339))
		}
		if !r.Removed.IsZero() {
			f.Add("replayed or dropped", r.Removed.Format(time.RFC3339))
		}
		f.Add("last consumer", r.Consumer)
		if r.PossibleDuplicate {
			f.Add("possible duplicate", duplicateText)
		}
	}
	if m.Size != deadletter.SizeUnknown {
		f.Add("replays", fmt.Sprint(m.Replays))
	}
	if m.Returns > 0 {
		f.Add("returns", "a quorum queue delivered it "+printable.Plural(int(m.Returns), "time")+
			" before, and got it back (x-delivery-count)")
	}
	if m.Foreign {
		f.Add("foreign headers", "those that begin with x-strikes- were written for another message: they count as absent")
	}
	f.Add("content type", m.Publishing.ContentType)
	f.Add("headers", headers(m.Publishing.Headers))
	if m.Size != deadletter.SizeUnknown {
		f.Add("body", printable.Plural(m.Size, "byte"))
	}
	if err := f.Write(w); err != nil {
		return err
	}
	if m.Record != nil {
		if err := history(w, ops.History(*m.Record)); err != nil {
			return err
		}
	}
	return body(w, m.Publishing.Body)
}

// noRecord says why the reason is the broker's and not a handler's; empty if there is a record.
func noRecord(m *deadletter.Message) string {
	switch {
	case m.Record != nil:
		return ""
	case m.Shared:
		return "none: the record is that of another message with this id, which died too"
	case m.ID == "" && m.Origin.Reason == "rejected":
		return "none: a message without an id is not counted; its consumer logged the reason, with the fingerprint"
	}
	return ""
}

// deadLetter is a dead letter in JSON.
type deadLetter struct {
	ID          string       `json:"id"`
	Queue       string       `json:"queue,omitempty"` // in which it died
	Kind        string       `json:"kind"`
	Reason      string       `json:"reason,omitempty"`
	Broker      string       `json:"broker_reason,omitempty"`
	Died        jsonl.Moment `json:"died,omitzero"`
	Failures    int          `json:"failures"`
	Crashes     int          `json:"crashes"`
	First       time.Time    `json:"first_failed,omitzero"` // attempt
	Last        time.Time    `json:"last_failed,omitzero"`  // attempt
	Counted     bool         `json:"counted"`               // there is a record
	Replays     *int64       `json:"replays,omitempty"`
	Returns     int64        `json:"returns,omitempty"` // to a quorum queue: x-delivery-count
	Redelivered *bool        `json:"redelivered,omitempty"`
	Size        *int         `json:"size,omitempty"`
	Fingerprint string       `json:"fingerprint,omitempty"` // which show, replay and drop take in place of the id

	Duplicate bool          `json:"possible_duplicate,omitempty"`
	History   []ops.Attempt `json:"history,omitempty"` // of show
}

func deadLetterOf(m *deadletter.Message) deadLetter {
	d := deadLetter{
		ID: m.ID, Queue: m.Origin.Queue, Kind: string(m.Kind()), Reason: m.Reason(), Broker: m.Origin.Reason,
		Died: jsonl.Moment(m.Origin.Time), Returns: m.Returns, Fingerprint: m.Fingerprint,
	}
	if m.Size != deadletter.SizeUnknown { // the record has none of these
		d.Replays, d.Redelivered, d.Size = &m.Replays, &m.Redelivered, &m.Size
	}
	if r := m.Record; r != nil {
		d.Counted, d.Failures, d.Crashes, d.First, d.Last = true, r.Failures, r.Crashes, r.FirstTime, r.LastTime
		d.Duplicate = r.PossibleDuplicate
	}
	return d
}

// DeadLetterJSON prints a dead letter as a line that publish takes, with all that is known of it added.
func DeadLetterJSON(w io.Writer, m *deadletter.Message) error {
	dead := deadLetterOf(m)
	if m.Record != nil {
		dead.History = ops.History(*m.Record)
	}
	return jsonl.NewEncoder(w).Encode(struct {
		jsonl.Message
		Dead deadLetter `json:"dead"`
	}{jsonl.MessageOf(m.Publishing, m.PartitionKey()), dead})
}

// duplicateText explains the signs of a second message.
const duplicateText = "two messages with this id may be in the queue, and share its attempts"

// history prints a line for each attempt, after an empty one.
func history(w io.Writer, attempts []ops.Attempt) error {
	if len(attempts) == 0 {
		return nil
	}
	if _, err := fmt.Fprintln(w); err != nil {
		return err
	}
	t := term.NewTable(w, "ATTEMPT", "FAILED", "RAN", "CAUSE", "CONSUMER", "ERROR")
	for _, a := range attempts {
		ran := "-"
		if a.Cause != counter.CauseCrashed {
			ran = (time.Duration(a.RanMS) * time.Millisecond).String()
		}
		cells := []string{fmt.Sprint(a.Number), a.At.Format(time.RFC3339), ran, string(a.Cause),
			printable.Line(a.Consumer, longest), printable.Why(a.Reason, longest)}
		if err := t.Row(cells...); err != nil {
			return err
		}
	}
	return t.Flush()
}

const (
	// bodyShown is how much of a body a text has, in bytes.
	bodyShown = 4 << 10
	// indented is the largest JSON body that is put on lines of its own.
	indented = 1 << 20
)

// headers has a header a line, and under it the lines of its text if there are several, as a stack trace has.
func headers(t amqp.Table) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		text, isText := t[name].(string)
		if isText && strings.Contains(strings.TrimSpace(text), "\n") {
			fmt.Fprintf(&b, "%s:\n  %s\n", printable.Name(name), strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  "))
			continue
		}
		value, err := json.Marshal(jsonl.Value(t[name]))
		if err != nil {
			value = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s: %s\n", printable.Name(name), value)
	}
	return b.String()
}

// body prints a body after an empty line, JSON on lines of its own.
func body(w io.Writer, body []byte) error {
	if len(body) == 0 {
		return nil
	}
	text, more := string(body[:min(len(body), bodyShown+1)]), ""
	if len(body) <= indented {
		if pretty, ok := printable.JSON(body, bodyShown+1); ok {
			text = pretty
		}
	}
	if len(text) > bodyShown {
		text, more = text[:bodyShown], "… (all of it: --body)"
	}
	_, err := fmt.Fprintf(w, "\n%s%s\n", printable.Text(text, "\n\t"), more)
	return err
}
