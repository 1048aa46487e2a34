package render

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"time"
	"unicode"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
)

var need = servertest.Need

// shows compares a text with a file of testdata.
func shows(t *testing.T, file, got string) {
	t.Helper()
	want, err := os.ReadFile("testdata/" + file)
	need(t, err)
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Errorf("%s (-want +got):\n%s", file, diff)
	}
}

func deadLetterExample() *deadletter.Message {
	at := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	return &deadletter.Message{
		ID: "order-17", Fingerprint: "fp:1", Size: 29, Origin: deadletter.Death{Queue: "orders", Reason: "rejected", Time: at,
			Key: "orders"},
		Record: &counter.Record{
			State: counter.StateDeadLetter, Failures: 4, FirstTime: at.Add(-time.Minute), LastTime: at,
			Cause:  counter.CausePanicked,
			Reason: "boom\ngoroutine 1:\n\tmain.go:7", Consumer: "web-1, pid 42",
		},
		Publishing: amqp.Publishing{
			ContentType: "application/json", Body: []byte(`{"order":17,"note":"\u001b[2J"}`),
			Headers: amqp.Table{"trace": "abc", "shards": int64(3), "x-error": "at A\nat B"},
		},
	}
}

func TestDeadLetterInFull(t *testing.T) {
	var out strings.Builder
	m := deadLetterExample()
	m.Returns = 3
	need(t, DeadLetter(&out, m))
	shows(t, "deadletter.txt", out.String())
}

// TestRecordsDoNotCountReplays: only the message itself says how often it was replayed, so a record says nothing of it.
func TestRecordsDoNotCountReplays(t *testing.T) {
	for m, want := range map[*deadletter.Message]bool{
		deadLetterExample(): true, deadletter.OfRecord(&counter.Record{}): false,
	} {
		var shown, list strings.Builder
		lines := DeadLetters(&list, true)
		need(t, errors.Join(DeadLetter(&shown, m), lines.Row(m), lines.Flush()))
		if strings.Contains(shown.String(), "replays") != want || strings.Contains(list.String(), `"replays":0`) != want ||
			strings.Contains(list.String(), `"redelivered":false`) != want {
			t.Errorf("want %v: %s%s", want, shown.String(), list.String())
		}
	}
}

// TestForeignHeadersAreNamed: an operator sees why a dead letter that carries the headers of a replay has no replays.
func TestForeignHeadersAreNamed(t *testing.T) {
	for _, foreign := range []bool{true, false} {
		var out strings.Builder
		m := deadLetterExample()
		m.Foreign = foreign
		if err := DeadLetter(&out, m); err != nil || strings.Contains(out.String(), "\nforeign headers ") != foreign {
			t.Errorf("foreign %v: %v: %s", foreign, err, out.String())
		}
	}
}

// TestDeadLetterIsSafeToShow: whatever a message holds, a terminal gets no control character of it.
func TestDeadLetterIsSafeToShow(t *testing.T) {
	const hostile = "\x1b]0;owned\x07\x1b[2J\r\n\u202e\u009b\x00\xff"
	m := deadLetterExample()
	m.ID, m.Fingerprint, m.Record.Reason, m.Record.Consumer = hostile, hostile, hostile, hostile
	m.Origin = deadletter.Death{Queue: hostile, Reason: hostile, Exchange: hostile, Key: hostile, Time: time.Now()}
	m.Publishing.ContentType = hostile
	m.Publishing.Headers = amqp.Table{hostile: hostile, "list": []any{hostile, []byte(hostile)},
		"table": amqp.Table{hostile: hostile}}
	for _, body := range []string{hostile, fmt.Sprintf(`{"a":%q}`, "\u202e"), `{"a":"` + "\u202e\u009b" + `"}`} {
		m.Publishing.Body = []byte(body)
		var out strings.Builder
		for _, list := range []List[*deadletter.Message]{DeadLetters(&out, false), DeadLetters(&out, true),
			Groups(&out, false, 0), Groups(&out, true, 0)} {
			need(t, errors.Join(list.Row(m), list.Flush()))
		}
		need(t, errors.Join(DeadLetter(&out, m), DeadLetterJSON(&out, m)))
		if i := strings.IndexFunc(out.String(), func(r rune) bool {
			return r != '\n' && !unicode.IsPrint(r) || r == '\ufffd'
		}); i >= 0 {
			t.Errorf("%q: %q", body, out.String()[max(0, i-20):min(i+20, out.Len())])
		}
	}
}

func TestLongBodiesAreCut(t *testing.T) {
	for name, text := range map[string]string{"text": strings.Repeat("x", 2*bodyShown),
		"JSON": "[" + strings.Repeat("1,", bodyShown) + "1]"} {
		m := deadLetterExample()
		m.Publishing.Body = []byte(text)
		var out strings.Builder
		need(t, DeadLetter(&out, m))
		_, shown, _ := strings.Cut(out.String(), "\n\n")
		if !strings.HasSuffix(shown, "… (all of it: --body)\n") || len(shown) > bodyShown+40 {
			t.Errorf("%s: %d bytes", name, len(shown))
		}
	}
}

func TestGroupsAreBounded(t *testing.T) {
	var out strings.Builder
	list := Groups(&out, false, 3)
	const most = 1000
	for i := range most + 10 {
		m := deadLetterExample()
		m.Record.Reason = fmt.Sprintf("reason %c%c", 'a'+i/40, 'A'+i%40)
		need(t, list.Row(m))
	}
	need(t, list.Flush())
	lines := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(lines) != 4 || !strings.HasPrefix(lines[1], "-         10 ") || !strings.Contains(lines[1], otherReasons) {
		t.Errorf("%q", lines)
	}
}

// TestBlankReasons: a list says that an error has no text, also if it is white space only.
func TestBlankReasons(t *testing.T) {
	for _, text := range []string{"", " \n\t"} {
		m := deadLetterExample()
		m.Origin.Reason, m.Record.Reason = "", text
		var list, groups strings.Builder
		dead, grouped := DeadLetters(&list, false), Groups(&groups, false, 0)
		need(t, errors.Join(dead.Row(m), dead.Flush(), grouped.Row(m), grouped.Flush()))
		var rows page
		rows.deadLetters(ops.DeadLetters{Reasons: []*ops.Group{{Count: 1}}}, "q")
		for _, got := range []string{list.String(), groups.String(), rows.String()} {
			if !strings.HasSuffix(got, "  "+printable.NoText+"\n") {
				t.Errorf("%q: %q", text, got)
			}
		}
	}
	m := deadLetterExample()
	m.Record.Reason = " \n\t"
	var full strings.Builder
	need(t, DeadLetter(&full, m))
	if want := "reason                " + printable.NoText + "\n"; !strings.Contains(full.String(), want) {
		t.Errorf("got %q, want %q", full.String(), want)
	}
}
