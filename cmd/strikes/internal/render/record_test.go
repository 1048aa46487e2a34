package render

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/ops"
)

var recordNow = time.Date(2026, 5, 6, 7, 8, 9, 0, time.UTC)

func recordExamples() []counter.Record {
	ago := func(d time.Duration) time.Time { return recordNow.Add(-d) }
	of := func(id string) counter.Message { return counter.Message{VHost: "/", Queue: "q", ID: id} }
	return []counter.Record{
		{Message: of("waits"), Failures: 1, FirstTime: ago(3 * time.Minute), LastTime: ago(time.Minute),
			Due: recordNow.Add(90 * time.Second), Wait: 3 * time.Minute,
			Reason: "exit status 1: no\nmore", TTL: time.Hour},
		{Message: of("may"), Failures: 2, Crashes: 1, FirstTime: ago(50 * time.Hour), Due: ago(time.Second)},
		{Message: of("runs now"), OpenToken: "t", OpenSince: ago(5 * time.Second), Suspect: true},
		{Message: of("\x1b[2J"), State: counter.StateDeadLetter, Failures: 4, FirstTime: ago(3 * time.Hour),
			Due: recordNow.Add(time.Hour), Reason: "\a"},
		{Message: of("done"), State: counter.StateDone},
	}
}

func TestRecordTable(t *testing.T) {
	var out strings.Builder
	p := Records(&out, false)
	for _, r := range recordExamples() {
		need(t, p.Row(ops.Of(r, nil, recordNow)))
	}
	need(t, p.Flush())
	want := strings.TrimPrefix(`
ID            STATE          FAILURES  CRASHES  AGE  DUE     LAST ERROR
waits         retrying       1         0        3m   in 90s  exit status 1: no…
may           retrying       2         1        2d   now     
"runs now"    running        0         0        5s   -       
"\x1b[2J"     dead-lettered  4         0        3h   -       \a
done          done           0         0        -    -       
`, "\n")
	if diff := cmp.Diff(normal(want), normal(out.String())); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// normal is a table without its alignment.
func normal(table string) []string {
	var rows []string
	for line := range strings.Lines(table) {
		rows = append(rows, strings.Join(strings.Fields(line), " "))
	}
	return rows
}

func TestRecordJSON(t *testing.T) {
	want := []string{
		`{"vhost":"/","queue":"q","id":"waits","state":"retrying","failures":1,"crashes":0,` +
			`"last_error":"exit status 1: no\nmore","first_failed":"2026-05-06T07:05:09Z",` +
			`"last_failed":"2026-05-06T07:07:09Z","due":"2026-05-06T07:09:39Z","starts":0,"expires":"2026-05-06T08:08:09Z"}`,
		`{"vhost":"/","queue":"q","id":"may","state":"retrying","failures":2,"crashes":1,` +
			`"first_failed":"2026-05-04T05:08:09Z","due":"2026-05-06T07:08:08Z","starts":0}`,
		`{"vhost":"/","queue":"q","id":"runs now","state":"running","failures":0,"crashes":0,` +
			`"running_since":"2026-05-06T07:08:04Z","suspect":true,"starts":0}`,
		`{"vhost":"/","queue":"q","id":"\u001b[2J","state":"dead-lettered","failures":4,"crashes":0,` +
			`"last_error":"\u0007","first_failed":"2026-05-06T04:08:09Z","starts":0}`,
		`{"vhost":"/","queue":"q","id":"done","state":"done","failures":0,"crashes":0,"starts":0}`,
	}
	for i, r := range recordExamples() {
		got, err := json.Marshal(ops.Of(r, nil, recordNow))
		if diff := cmp.Diff(want[i], string(got)); diff != "" || err != nil {
			t.Errorf("%v (-want +got):\n%s", err, diff)
		}
	}
}

// TestRecordInFull has an error of several lines, as a panic's stack is.
func TestRecordInFull(t *testing.T) {
	r := recordExamples()[0]
	r.Crashes, r.Cause, r.Reason = 1, counter.CausePanicked, "boom\ngoroutine 1:\n\tmain.go:7\x1b[2J"
	var out strings.Builder
	need(t, Record(&out, ops.Of(r, &counter.Override{MaxRetries: new(3)}, recordNow)))
	shows(t, "record.txt", out.String())
}

// TestLaneNames: a name that is no UTF-8 is whole in JSON.
func TestLaneNames(t *testing.T) {
	for lane, want := range map[string]string{"café": `"lane":"café"`, "a\xff": `"lane_base64":"Yf8="`} {
		var out strings.Builder
		list := Lanes(&out, true)
		need(t, list.Row(ops.BlockedLane{BlockedLane: counter.BlockedLane{Lane: lane}}))
		need(t, list.Flush())
		if !strings.Contains(out.String(), want) || strings.Contains(out.String(), "base64") != strings.Contains(want,
			"base64") {
			t.Errorf("%q: %s", lane, &out)
		}
	}
}
