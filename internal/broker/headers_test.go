package broker

import (
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

// everything has each header that strikes writes, and one of a publisher.
func everything() amqp.Table {
	return amqp.Table{
		"mine": "kept", GenerationHeader: "g1", FenceHeader: int64(7), PositionHeader: "1.1", CopyHeader: int64(2),
		CopyGenerationHeader: "g0", LineageHeader: amqp.Table{"count": int64(1)}, "x-strikes-other": "t",
	}
}

// TestCopiedHeadersCountAsAbsent: headers count on the message that they were written for, in its queue, and on no
// other.
func TestCopiedHeadersCountAsAbsent(t *testing.T) {
	type read struct {
		Foreign              bool
		Generation, Position string
		CopyNumber, Fence    int64
		Lineage              bool
		Copied               int
	}
	own := read{Generation: "g0", Position: "1.1", CopyNumber: 2, Fence: 7, Lineage: true, Copied: 9}
	elsewhere := read{Generation: "header:g1", Fence: 7, Lineage: true, Copied: 6}
	foreign := read{Foreign: true, Copied: 1}
	for _, tt := range []struct {
		name, queue, id, body string // of the message that the headers were written for
		want                  read
	}{
		{"this message", "orders", "m1", "", own},
		{"this message, with another body", "orders", "m1", "mended", own},
		{"this message in whatever queue", "", "m1", "", elsewhere},
		{"another message", "orders", "m2", "", foreign},
		{"a message without an id", "orders", "", "body", foreign},
		{"the same message in another queue", "bills", "m1", "", foreign},
		{"a queue and an id that are the same text", "order", "sm1", "", foreign},
	} {
		headers := everything()
		WriteFor(headers, tt.queue, tt.id, []byte(tt.body))
		h := ReadHeaders(headers, "orders", "m1", []byte("body"))
		got := read{h.Foreign(), h.Generation(), h.Position(), h.CopyNumber(), h.Fence(), h.Lineage() != nil, len(h.Copy())}
		if diff := cmp.Diff(tt.want, got); diff != "" {
			t.Errorf("for %s: %s", tt.name, diff)
		}
		if len(headers) != 9 || h.Copy()["mine"] != "kept" {
			t.Errorf("for %s: the message's own table has %d headers, the copy %v", tt.name, len(headers), h.Copy())
		}
	}
}

// TestHeadersOfNoName: headers that name no message count as absent, whatever stands in place of the name. One alone is
// enough.
func TestHeadersOfNoName(t *testing.T) {
	for _, name := range tied {
		for _, value := range []any{nil, "", int64(1), amqp.Table{}, []any{"a"}, true, strings.Repeat("0", 32)} {
			h := ReadHeaders(amqp.Table{name: everything()[name], ForHeader: value}, "orders", "m1", nil)
			if !h.Foreign() || h.Generation() != "" || h.Fence() != 0 || h.Position() != "" || h.CopyNumber() != 0 ||
				h.Lineage() != nil {
				t.Errorf("%s with the name %v counts: %+v", name, value, h)
			}
		}
	}
	died := death("orders", "rejected", int64(1), time.Unix(1_700_000_000, 0))
	h := ReadHeaders(amqp.Table{GenerationHeader: "g1", "x-death": []any{died}}, "orders", "m1", nil)
	if got := h.Generation(); got != "1@1700000000" {
		t.Errorf("the death does not count: %q", got)
	}
}

// TestHeadersWithoutOurs: a message without headers of strikes is not hashed.
func TestHeadersWithoutOurs(t *testing.T) {
	body := make([]byte, 1<<20)
	headers := amqp.Table{"traceparent": "t", "tenant": "a", "x-delivery-count": int64(1), ForHeader: "of another"}
	if n := testing.AllocsPerRun(100, func() {
		if h := ReadHeaders(headers, "orders", "", body); h.Foreign() || h.Generation() != "" || h.CopyNumber() != 0 {
			t.Error(h)
		}
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
}

func BenchmarkRead(b *testing.B) {
	headers := amqp.Table{"traceparent": "t", "tenant": "a", "x-delivery-count": int64(1)}
	for b.Loop() {
		ReadHeaders(headers, "orders", "m1", nil)
	}
}

// TestHeaderText: a lane has one name, whatever the host of its consumer.
func TestHeaderText(t *testing.T) {
	at := time.Date(2026, 11, 23, 12, 0, 0, 0, time.UTC)
	for _, tt := range []struct {
		value any
		want  string
	}{
		{nil, ""}, {"a1", "a1"}, {"", ""}, {[]byte("a1"), "a1"}, {int32(7), "7"}, {int64(7), "7"}, {true, "true"},
		{at, "2026-11-23T12:00:00Z"}, {at.In(time.FixedZone("east", 3600)), "2026-11-23T12:00:00Z"},
	} {
		if got := HeaderText(tt.value); got != tt.want {
			t.Errorf("%#v as text: %q, want %q", tt.value, got, tt.want)
		}
	}
}

func death(queue, reason string, count any, at time.Time) amqp.Table {
	return amqp.Table{"queue": queue, "reason": reason, "count": count, "time": at, "exchange": "x",
		"routing-keys": []any{"k", "l"}}
}

func TestDeaths(t *testing.T) {
	at := time.Unix(1_700_000_000, 0)
	got := Deaths(amqp.Table{"x-death": []any{death("q", "rejected", int64(2), at), 7, amqp.Table{"queue": "p",
		"count": int32(3), "routing-keys": []any{}}, amqp.Table{}}})
	want := []Death{{Queue: "q", Exchange: "x", Key: "k", Reason: "rejected", Time: at, Count: 2}, {Queue: "p", Count: 3}}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
	if got := Deaths(amqp.Table{"x-death": "no list"}); got != nil {
		t.Errorf("no list: %v", got)
	}
}

func TestFingerprint(t *testing.T) {
	seen := map[string][4]string{}
	for _, m := range [][4]string{
		{"", "", "", ""}, {"", "", "", "body"}, {"", "", "", "body2"}, {"b", "", "", "ody"}, {"", "b", "", "ody"},
		{"", "", "b", "ody"},
		{"a", "b", "", ""}, {"", "a", "b", ""}, {"ab", "", "", ""}, {"\xff", "", "", ""},
	} {
		got := Fingerprint(m[0], m[1], m[2], []byte(m[3]))
		if !strings.HasPrefix(got, FingerprintPrefix) || len(got) != len(FingerprintPrefix)+12 ||
			got != Fingerprint(m[0], m[1], m[2], []byte(m[3])) {
			t.Errorf("%q: %s", m, got)
		}
		if other, both := seen[got]; both {
			t.Errorf("%q and %q are both %s", m, other, got)
		}
		seen[got] = m
	}
}
