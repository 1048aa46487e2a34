package counter

import (
	"bytes"
	"encoding/json"
	"fmt"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
)

// specCases reads a file of spec/v1; spec/README.md describes it. A field that no runner knows is an error.
func specCases[T any](t *testing.T, file string) []T {
	t.Helper()
	raw, err := os.ReadFile("../spec/v1/" + file)
	need(t, err)
	var of struct {
		Schema string `json:"$schema"`
		Cases  []T    `json:"cases"`
	}
	if err := decodeSpec(raw, &of); err != nil || len(of.Cases) == 0 {
		t.Fatalf("%s: %d cases, %v", file, len(of.Cases), err)
	}
	return of.Cases
}

func decodeSpec(raw []byte, into any) error {
	d := json.NewDecoder(bytes.NewReader(raw))
	d.DisallowUnknownFields()
	return d.Decode(into)
}

// specText is a JSON string, or {"base64": …} for bytes that are not UTF-8.
type specText string

func (s *specText) UnmarshalJSON(raw []byte) error {
	if raw[0] == '"' {
		return json.Unmarshal(raw, (*string)(s))
	}
	var of struct {
		Bytes []byte `json:"base64"`
	}
	err := decodeSpec(raw, &of)
	*s = specText(of.Bytes)
	return err
}

func TestSpecKeys(t *testing.T) {
	type keyCase struct {
		Name, Why, Prefix, Member    string
		VHost, Queue, ID, Generation specText
		Keys                         map[string]string
	}
	for _, c := range specCases[keyCase](t, "keys.json") {
		m := Message{VHost: string(c.VHost), Queue: string(c.Queue), ID: string(c.ID), Generation: string(c.Generation)}
		o := (&Options{Prefix: c.Prefix}).withDefaults()
		k, control := o.keys(m), o.controlKeys(m.VHost, m.Queue)
		got := map[string]string{
			"index": k.index, "limit": k.override, "tombstones": k.tombstones, "dead": k.dead, "record": k.record,
			"pause": control[0], "consumers": control[1], "skips": control[2],
			"undecodable": o.queueKey(m.VHost, m.Queue) + docUndecodable,
		}
		if diff := cmp.Diff(c.Keys, got); diff != "" {
			t.Errorf("%s (%s):\n%s", c.Name, c.Why, diff)
		}
		if got := member(m.ID, m.Generation); got != c.Member {
			t.Errorf("%s (%s): member %s, want %s", c.Name, c.Why, got, c.Member)
		}
	}
}

// specRecord is a record as spec/README.md has it. Times are ms; nil is absent.
type specRecord struct {
	Failures   int           `json:"failures"`
	Crashes    int           `json:"crashes"`
	Starts     int64         `json:"starts"`
	Fence      any           `json:"fence"` // an integer, or "clock N"
	Suspect    bool          `json:"suspect"`
	State      string        `json:"state"`
	Binds      *int64        `json:"binds"`
	Due        *int64        `json:"due"`
	Wait       int64         `json:"wait"`
	First      *int64        `json:"first"`
	Last       *int64        `json:"last"`
	Cause      string        `json:"cause"`
	Open       string        `json:"open"`
	Mode       string        `json:"mode"`
	Since      *int64        `json:"since"`
	Listed     *int64        `json:"listed"`
	Limit      int           `json:"limit"`
	Own        int           `json:"own"`
	Firsts     int           `json:"firsts"`
	Tokens     [][2]string   `json:"tokens"`
	ID         specText      `json:"id"`
	Generation specText      `json:"generation"`
	Consumer   specText      `json:"consumer"`
	Notes      []specNote    `json:"notes"`
	History    []specHistory `json:"history"`
	Reason     specText      `json:"reason"`
	Moved      *specMoved    `json:"moved"`

	// Of the steps alone.
	TTL    int64     `json:"ttl"`
	Set    string    `json:"set"`
	String *specText `json:"string"` // the text of another program, in place of all else
	Type   string    `json:"type"`   // the same, of another type
}

type specMoved struct {
	CopyNumber int64  `json:"copy_number"`
	Top        int64  `json:"top"`
	Until      *int64 `json:"until"`
	Mover      string `json:"mover"`
	Body       string `json:"body"`
}

type specNote struct {
	Kind    string   `json:"kind"`
	At      int64    `json:"at"`
	By, Why specText `json:",omitempty"`
}

type specHistory struct {
	Cause    string   `json:"cause"`
	After    int64    `json:"after"`
	Ran      int64    `json:"ran"`
	Token    string   `json:"token"`
	Consumer specText `json:"consumer"`
	Reason   specText `json:"reason"`
}

// times are the fields that hold a time.
func (r *specRecord) times() []**int64 {
	times := []**int64{&r.Binds, &r.Due, &r.First, &r.Last, &r.Since, &r.Listed}
	if r.Moved != nil {
		times = append(times, &r.Moved.Until)
	}
	return times
}

// text writes the record, with times relative to begin.
func (r specRecord) text(begin int64) string {
	at := func(ms *int64) string {
		if ms == nil {
			return "0"
		}
		return strconv.FormatInt(*ms+begin, 10)
	}
	word := func(s string) string {
		if s == "" {
			return "."
		}
		return s
	}
	lasted := int64(0)
	if r.First != nil {
		lasted = *r.Last - *r.First
	}
	tokens := "."
	for _, token := range r.Tokens {
		tokens += ";" + token[0] + "=" + token[1]
	}
	fence := any(0)
	if r.Fence != nil {
		fence = int64(r.Fence.(float64))
	}
	notes, history := r.notesText(begin), r.historyText()
	line := fmt.Sprint(r.Failures, " ", r.Crashes, " ", r.Starts, " ", fence, " ", flag(r.Suspect), " ", word(r.State),
		" ", at(r.Binds), " ", at(r.Due), " ", r.Wait,
		" ", at(r.First), " ", lasted, " ", word(r.Cause), " ", word(r.Open), " ", word(r.Mode), " ", at(r.Since),
		" ", at(r.Listed), " ", r.Limit, " ", r.Own, " ", r.Firsts,
		" ", tokens, " ", len(r.ID), " ", len(r.Generation), " ", len(r.Consumer), " ", len(notes), " ", len(history))
	if m := r.Moved; m != nil {
		line += fmt.Sprintf(" %d:%d:%s:%s:%s", m.CopyNumber, m.Top, at(m.Until), word(m.Mover), m.Body)
	}
	return line + "\n" + string(r.ID+r.Generation+r.Consumer) + notes + history + string(r.Reason)
}

func (r specRecord) notesText(begin int64) (text string) {
	for _, n := range r.Notes {
		text += fmt.Sprintf("%s %d %d %d\n%s%s", n.Kind, n.At+begin, len(n.By), len(n.Why), n.By, n.Why)
	}
	return text
}

func (r specRecord) historyText() (text string) {
	for _, h := range r.History {
		lasted := strconv.FormatInt(h.Ran, 10)
		if h.Cause == "c" {
			lasted = h.Token
		}
		text += fmt.Sprintf("\n%s%d\t%s\t%s\t%s", h.Cause, h.After, lasted, h.Consumer, h.Reason)
	}
	return text
}

// recordWords is the number of words in the first line of a record that was not moved.
const recordWords = 25

// take cuts parts of these lengths from the beginning of a text, and returns the rest.
func take(text string, lengths []string) (parts []string, rest string, ok bool) {
	for _, length := range lengths {
		n := number(length)
		if n > int64(len(text)) {
			return nil, "", false
		}
		parts, text = append(parts, text[:n]), text[n:]
	}
	return parts, text, true
}

// readSpec reads a record as it is stored. Package counter's own reader omits fields that operators do not need.
func readSpec(t *testing.T, text string, begin int64) specRecord {
	t.Helper()
	line, rest, _ := strings.Cut(text, "\n")
	w := strings.Split(line, " ")
	if len(w) != recordWords && len(w) != recordWords+1 {
		t.Fatalf("%d words in %q", len(w), line)
	}
	parts, reason, ok := take(rest, w[20:recordWords])
	if !ok {
		t.Fatalf("too short: %q", text)
	}
	at := func(w string) *int64 {
		if w == "0" {
			return nil
		}
		return new(number(w) - begin)
	}
	word := func(w string) string { return strings.TrimSuffix(w, ".") }
	r := specRecord{
		Failures: int(number(w[0])), Crashes: int(number(w[1])), Starts: number(w[2]), Fence: float64(number(w[3])),
		Suspect: w[4] == "1", State: word(w[5]),
		Binds: at(w[6]), Due: at(w[7]), Wait: number(w[8]), First: at(w[9]), Cause: word(w[11]), Open: word(w[12]),
		Mode: word(w[13]), Since: at(w[14]),
		Listed: at(w[15]), Limit: int(number(w[16])), Own: int(number(w[17])), Firsts: int(number(w[18])),
		ID: specText(parts[0]), Generation: specText(parts[1]), Consumer: specText(parts[2]), Reason: specText(reason),
	}
	if r.Fence == 0.0 {
		r.Fence = nil
	}
	if r.First != nil {
		r.Last = new(*r.First + number(w[10]))
	}
	if len(w) > recordWords {
		m := strings.Split(w[recordWords], ":")
		r.Moved = &specMoved{CopyNumber: number(m[0]), Top: number(m[1]), Until: at(m[2]), Mover: word(m[3]), Body: m[4]}
	}
	for entry := range strings.SplitSeq(w[19], ";") {
		if token, kind, ok := strings.Cut(entry, "="); ok {
			r.Tokens = append(r.Tokens, [2]string{token, kind})
		}
	}
	for rest := parts[3]; rest != ""; {
		line, after, _ := strings.Cut(rest, "\n")
		w := strings.Split(line, " ")
		texts, after, ok := take(after, w[2:])
		if !ok {
			t.Fatalf("notes: %q", parts[3])
		}
		r.Notes, rest = append(r.Notes, specNote{w[0], number(w[1]) - begin, specText(texts[0]), specText(texts[1])}), after
	}
	for entry := range strings.SplitSeq(strings.TrimPrefix(parts[4], "\n"), "\n") {
		if f := strings.Split(entry, "\t"); len(f) == 4 {
			h := specHistory{Cause: f[0][:1], After: number(f[0][1:]), Consumer: specText(f[2]), Reason: specText(f[3])}
			if h.Cause == "c" {
				h.Token = f[1]
			} else {
				h.Ran = number(f[1])
			}
			r.History = append(r.History, h)
		}
	}
	return r
}

func TestSpecRecords(t *testing.T) {
	type recordCase struct {
		Name, Why string
		Text      specText
		Fields    *specRecord
	}
	for _, c := range specCases[recordCase](t, "records.json") {
		got := parseRecord(Message{VHost: "/", Queue: "orders"}, string(c.Text), time.Hour)
		if c.Fields == nil {
			if got.State != StateForeign {
				t.Errorf("%s (%s): read as a record: %+v", c.Name, c.Why, got)
			}
			continue
		}
		if text := c.Fields.text(0); text != string(c.Text) {
			t.Errorf("%s (%s): written as\n%q, want\n%q", c.Name, c.Why, text, c.Text)
		}
		if diff := cmp.Diff(*c.Fields, readSpec(t, string(c.Text), 0)); diff != "" {
			t.Errorf("%s (%s):\n%s", c.Name, c.Why, diff)
		}
		if text := rules.Encode(got); text != string(c.Text) {
			t.Errorf("%s (%s): Go writes\n%q, want\n%q", c.Name, c.Why, text, c.Text)
		}
		if diff := cmp.Diff(c.Fields.record(), got); diff != "" {
			t.Errorf("%s (%s): as operators see it:\n%s", c.Name, c.Why, diff)
		}
	}
}

// record is the record as operators see it.
func (r specRecord) record() Record {
	at := func(ms *int64) time.Time {
		if ms == nil {
			return time.Time{}
		}
		return time.UnixMilli(*ms).UTC()
	}
	out := Record{
		Message:  Message{VHost: "/", Queue: "orders", ID: string(r.ID), Generation: string(r.Generation)},
		State:    State(r.State),
		Failures: r.Failures, Crashes: r.Crashes, OpenToken: r.Open, OpenSince: at(r.Since), Suspect: r.Suspect,
		Starts: r.Starts,
		Due:    at(r.Due), Wait: time.Duration(r.Wait) * time.Millisecond, Binds: at(r.Binds), FirstTime: at(r.First),
		LastTime: at(r.Last),
		Cause:    Cause(r.Cause), Reason: string(r.Reason), Limit: r.Limit, Listed: at(r.Listed),
		Consumer:    string(r.Consumer),
		FirstFailed: r.Firsts > 0, PossibleDuplicate: r.Firsts == 2, TTL: time.Hour,
	}
	if r.Fence != nil {
		out.Fence = int64(r.Fence.(float64))
	}
	out.OpenMode = map[string]Mode{"isolated": ModeIsolated, "reserved": ModeReserved}[r.Mode]
	if m := r.Moved; m != nil {
		out.Move = Move{CopyNumber: m.CopyNumber, Top: m.Top, Until: at(m.Until), Mover: m.Mover, Body: m.Body}
	}
	for _, token := range r.Tokens {
		out.Tokens = append(out.Tokens, rules.Token{Name: token[0], Kind: Kind(token[1][0])})
	}
	out.OwnLimit = r.Own
	for _, n := range r.Notes {
		note := Note{By: string(n.By), Why: string(n.Why), At: at(&n.At)}
		switch n.Kind {
		case "reset":
			out.Reset = note
		case "skip":
			out.Skipped = note
		case "removed":
			out.Removed = note.At
		}
	}
	whole, _ := rules.Decode(r.text(0))
	out.History = whole.History
	return out
}
