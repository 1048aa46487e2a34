package counter

import (
	"bytes"
	"encoding/json"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

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
	for _, c := range servertest.SpecCases[keyCase](t, "keys.json") {
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

func TestSpecRecords(t *testing.T) {
	type recordCase struct {
		Name, Why string
		Text      specText
		Fields    *specRecord
	}
	for _, c := range servertest.SpecCases[recordCase](t, "records.json") {
		got, ok := parseRecord(Queue{"/", "orders"}, string(c.Text))
		if c.Fields == nil {
			if ok {
				t.Errorf("%s (%s): read as a record: %+v", c.Name, c.Why, got)
			}
			continue
		}
		want := c.Fields.record(0)
		if text := rules.Encode(want); text != string(c.Text) {
			t.Errorf("%s (%s): written as\n%q, want\n%q", c.Name, c.Why, text, c.Text)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%s (%s):\n%s", c.Name, c.Why, diff)
		}
	}
}

// record is the record with times relative to begin. A value that no record can have makes it differ from all.
func (r specRecord) record(begin int64) Record {
	at := func(ms *int64) time.Time {
		if ms == nil {
			return time.Time{}
		}
		return time.UnixMilli(*ms + begin).UTC()
	}
	mode, known := map[string]rules.Mode{"isolated": rules.ModeIsolated, "reserved": rules.ModeReserved,
		"shared": rules.ModeShared, "": 0}[r.Mode]
	if !known {
		mode = -1
	}
	out := Record{
		Message:  Message{VHost: "/", Queue: "orders", ID: string(r.ID), Generation: string(r.Generation)},
		State:    State(r.State),
		Failures: r.Failures, Crashes: r.Crashes, OpenToken: r.Open, OpenMode: mode, OpenSince: at(r.Since),
		Suspect: r.Suspect, Starts: r.Starts,
		Due: at(r.Due), Wait: time.Duration(r.Wait) * time.Millisecond, Binds: at(r.Binds), FirstTime: at(r.First),
		LastTime: at(r.Last),
		Cause:    Cause(r.Cause), Reason: string(r.Reason), Limit: r.Limit, OwnLimit: r.Own, Listed: at(r.Listed),
		Consumer:    string(r.Consumer),
		FirstFailed: r.Firsts > 0, PossibleDuplicate: r.Firsts > 0 && r.Firsts%2 == 0,
	}
	if fence, ok := r.Fence.(float64); ok {
		out.Fence = int64(fence)
	}
	if m := r.Moved; m != nil {
		out.Move = rules.Move{CopyNumber: m.CopyNumber, Top: m.Top, Until: at(m.Until), Mover: m.Mover, Body: m.Body}
	}
	for _, token := range r.Tokens {
		kind := rules.Kind(0)
		if len(token[1]) == 1 {
			kind = rules.Kind(token[1][0])
		}
		out.Tokens = append(out.Tokens, rules.Token{Name: token[0], Kind: kind})
	}
	for _, n := range r.Notes {
		note := Note{By: string(n.By), Why: string(n.Why), At: at(&n.At)}
		switch {
		case n.Kind == "reset":
			out.Reset = note
		case n.Kind == "skip":
			out.Skipped = note
		case n.Kind == "removed" && note.ByAndWhy() == "":
			out.Removed = note.At
		}
	}
	for i, h := range slices.Backward(r.History) {
		n := rules.AttemptNote{Number: out.Counted() - i, At: out.FirstTime.Add(time.Duration(h.After) * time.Millisecond),
			Ran: time.Duration(h.Ran) * time.Millisecond, Token: h.Token, Consumer: string(h.Consumer), Reason: string(h.Reason)}
		for _, cause := range []Cause{CauseFailed, CausePanicked, CauseTimedOut, CauseRejected, CauseCrashed} {
			if string(cause[:1]) == h.Cause {
				n.Cause = cause
			}
		}
		if n.Cause == CauseCrashed && n.Reason == "" {
			n.Reason = "the process died while this message ran isolated"
		}
		out.History = append(out.History, n)
	}
	return out
}
