package deadletter

import (
	"context"
	"iter"
	"maps"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
)

func TestGenerationBefore(t *testing.T) {
	at := func(count, seconds int64) Death {
		return Death{Queue: "orders", Count: count, Time: time.Unix(seconds, 0)}
	}
	for _, tc := range []struct {
		name        string
		died        Death
		generations []string
		want        string
	}{
		{"the first", at(1, 100), nil, ""},
		{"begun with this death", at(1, 100), []string{"1@100"}, ""},
		{"begun later", at(1, 100), []string{"1@200"}, ""},
		{"4.x begins to count anew", at(1, 300), []string{"1@100", "1@200", "1@300"}, "1@200"},
		{"in another order", at(1, 300), []string{"1@200", "1@300", "1@100"}, "1@200"},
		{"3.10 keeps the time", at(11, 100), []string{"9@100", "10@100", "11@100"}, "10@100"},
		{"of other forms", at(1, 300), []string{"header:1-2-3", "1@", "@1", "a@b", "1@2@3"}, ""},
		{"without a time", Death{Queue: "orders"}, []string{"1@100"}, ""},
	} {
		if got := generationBefore(&Message{Origin: tc.died}, tc.generations); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// fakeRecords has the records of one queue by generation, and counts how often they are listed.
type fakeRecords struct {
	generations map[string]counter.Record
	listed      int
}

func (s *fakeRecords) Lookup(_ context.Context, vhost, queue string,
	generations []counter.Message) (map[counter.Message]counter.Record, error) {
	found := map[counter.Message]counter.Record{}
	for _, m := range generations {
		if r, ok := s.generations[m.Generation]; ok {
			found[counter.Message{VHost: vhost, Queue: queue, ID: m.ID, Generation: m.Generation}] = r
		}
	}
	return found, nil
}

func (s *fakeRecords) Generations(context.Context, string, string) iter.Seq2[counter.Record, error] {
	s.listed++
	return func(yield func(counter.Record, error) bool) {
		for _, r := range s.generations {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *fakeRecords) NoteRemoved(context.Context, string, string, []counter.Message) error {
	return nil
}

// TestJoin has a message that another tool brings back from the dead messages with its headers: RabbitMQ 4.x forgets
// the death before, and the generations of which the letter tells are only the first.
func TestJoin(t *testing.T) {
	tombstone := func(generation, reason string, ago time.Duration) counter.Record {
		last := died.Add(-ago)
		return counter.Record{
			Message: counter.Message{ID: "17", Generation: generation}, State: counter.StateDeadLetter, Reason: reason,
			LastTime: last, Binds: last.Add(10 * time.Minute),
		}
	}
	first, hourOld := tombstone("", "first", 0), tombstone("", "first", time.Hour)
	replay := amqp.Table{GenerationHeader: "r"}
	broker.WriteFor(replay, "orders", "17", nil)
	after := func(headers amqp.Table, count int64, at time.Time) string {
		return broker.ReadHeaders(headers, "orders", "17", nil).GenerationAfter(count, at)
	}
	hourOldReplay := tombstone("header:r", "replayed", time.Hour)
	movedBack := tombstone(after(replay, 1, died.Add(-time.Hour)), "moved back", 0)
	goneOn := tombstone(after(replay, 2, died), "gone on", 0)
	second := tombstone(after(nil, 1, died.Add(-time.Hour)), "second", 0)
	for _, tc := range []struct {
		name    string
		headers amqp.Table
		records []counter.Record
		want    string
		listed  int
	}{
		{"one generation", nil, []counter.Record{first}, "first", 0},
		{"the second of two", nil, []counter.Record{hourOld, second}, "second", 1},
		{"the first expired", nil, []counter.Record{second}, "second", 1},
		{"the second was not counted", nil, []counter.Record{hourOld}, "", 1},
		{"nothing is kept", nil, nil, "", 1},
		{"another generation began since", nil,
			[]counter.Record{first, tombstone(after(nil, 1, died), "later", -time.Hour)}, "first", 0},
		{"replayed", replay, []counter.Record{first, tombstone("header:r", "replayed", 0)}, "replayed", 0},
		{"replayed, and not counted", replay, []counter.Record{first, second}, "", 1},
		{"replayed, and moved back", replay, []counter.Record{first, second, hourOldReplay, movedBack}, "moved back", 1},
		{"with the headers of a replay of another message",
			amqp.Table{GenerationHeader: "r", broker.ForHeader: "of another"},
			[]counter.Record{first, tombstone("header:r", "replayed", 0)}, "first", 0},
		{"replayed, moved back, and the broker goes on counting",
			broker.Merge(replay, amqp.Table{"x-death": []any{death("orders", "rejected", 3)}}),
			[]counter.Record{first, second, hourOldReplay, goneOn}, "gone on", 0},
		{"the store's clock is slow", nil, []counter.Record{tombstone("", "first", 5*time.Minute)}, "first", 1},
	} {
		s := &fakeRecords{generations: map[string]counter.Record{}}
		for _, r := range tc.records {
			s.generations[r.Generation] = r
		}
		headers := amqp.Table{"x-death": []any{death("orders", "rejected", 1)}}
		maps.Copy(headers, tc.headers)
		j := &joiner{records: s, vhost: "/"}
		for range 2 {
			m := messageOf(headers)
			if err := j.join(t.Context(), []*Message{m}); err != nil {
				t.Fatal(err)
			}
			got := ""
			if m.Record != nil {
				got = m.Record.Reason
			}
			if got != tc.want {
				t.Errorf("%s: the record is of %q, want %q", tc.name, got, tc.want)
			}
		}
		if s.listed != tc.listed {
			t.Errorf("%s: listed %d times, want %d", tc.name, s.listed, tc.listed)
		}
	}
}

// TestRecordOfALaterMessage: an id was used for two messages, which are counted in one record. A message that died
// before the last failed attempt has no record.
func TestRecordOfALaterMessage(t *testing.T) {
	once := rules.Tokens{{Name: "a", Kind: rules.KindFailed}}
	again := rules.Tokens{{Name: "a", Kind: rules.KindNotCounted}, {Name: "b", Kind: rules.KindFailed}}
	for name, tc := range map[string]struct {
		tokens rules.Tokens
		ago    time.Duration // of the death, before the record's last failed attempt
		count  int64
		later  bool
	}{
		"one":                         {once, 0, 1, false},
		"one, the store's clock fast": {once, time.Minute, 1, false},
		"one that was stopped":        {again, time.Second, 1, false},
		"the first of two":            {again, time.Minute, 1, true},
		"the second of two":           {again, -time.Second, 1, false},
		"within the clocks' accuracy": {again, 2 * time.Second, 1, false},
		"3.10 keeps the first time":   {again, time.Hour, 3, false},
	} {
		r := counter.Record{Message: counter.Message{ID: "17"}, State: counter.StateDeadLetter, Tokens: tc.tokens,
			LastTime: died, Binds: died.Add(time.Hour), Reason: "boom"}
		s := &fakeRecords{generations: map[string]counter.Record{"": r}}
		m := &Message{ID: "17", Queue: "orders",
			Origin: Death{Queue: "orders", Time: died.Add(-tc.ago), Count: tc.count, Reason: "rejected"}}
		if err := (&joiner{records: s, vhost: "/"}).join(t.Context(), []*Message{m}); err != nil {
			t.Fatal(err)
		}
		if m.Shared != tc.later || (m.Record == nil) != tc.later {
			t.Errorf("%s: shared %v, record %v", name, m.Shared, m.Record)
		}
	}
}
