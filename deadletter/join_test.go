package deadletter

import (
	"context"
	"iter"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
)

func TestLifeBefore(t *testing.T) {
	at := func(count, seconds int64) Death {
		return Death{Queue: "orders", Count: count, Time: time.Unix(seconds, 0)}
	}
	for _, tc := range []struct {
		name  string
		died  Death
		lives []string
		want  string
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
		if got := lifeBefore(nil, tc.died, tc.lives); got != tc.want {
			t.Errorf("%s: %q, want %q", tc.name, got, tc.want)
		}
	}
}

// shelf has the records of one queue, by life, and counts how often they are listed.
type shelf struct {
	lives  map[string]counter.Record
	listed int
}

func (s *shelf) Lookup(_ context.Context, vhost, queue string, lives []counter.Message) (map[counter.Message]counter.Record, error) {
	found := map[counter.Message]counter.Record{}
	for _, m := range lives {
		if r, ok := s.lives[m.Generation]; ok {
			found[counter.Message{VHost: vhost, Queue: queue, ID: m.ID, Generation: m.Generation}] = r
		}
	}
	return found, nil
}

func (s *shelf) Generations(context.Context, string, string) iter.Seq2[counter.Record, error] {
	s.listed++
	return func(yield func(counter.Record, error) bool) {
		for _, r := range s.lives {
			if !yield(r, nil) {
				return
			}
		}
	}
}

func (s *shelf) NoteRemoved(context.Context, string, string, []counter.Message) error { return nil }

// TestJoin has a message that another tool brings back from the dead letters with its headers: RabbitMQ 4.x forgets the
// death before, and the lives of which the letter tells are only the first.
func TestJoin(t *testing.T) {
	buried := func(life, reason string, ago time.Duration) counter.Record {
		last := died.Add(-ago)
		return counter.Record{
			Message: counter.Message{ID: "17", Generation: life}, State: counter.StateDeadLetter, Reason: reason, LastTime: last, Binds: last.Add(10 * time.Minute),
		}
	}
	first, hourOld := buried("", "first", 0), buried("", "first", time.Hour)
	replay := amqp.Table{GenerationHeader: "r"}
	hourOldReplay, movedBack := buried("header:r", "replayed", time.Hour), buried(named(1, died.Add(-time.Hour).Unix(), replay), "moved back", 0)
	goneOn := buried(named(2, died.Unix(), replay), "gone on", 0)
	second := buried(named(1, died.Add(-time.Hour).Unix(), nil), "second", 0)
	for _, tc := range []struct {
		name    string
		headers amqp.Table
		records []counter.Record
		want    string
		listed  int
	}{
		{"one life", nil, []counter.Record{first}, "first", 0},
		{"the second of two", nil, []counter.Record{hourOld, second}, "second", 1},
		{"the first expired", nil, []counter.Record{second}, "second", 1},
		{"the second was not counted", nil, []counter.Record{hourOld}, "", 1},
		{"nothing is kept", nil, nil, "", 1},
		{"another life began since", nil, []counter.Record{first, buried(named(1, died.Unix(), nil), "later", -time.Hour)}, "first", 0},
		{"replayed", amqp.Table{GenerationHeader: "r"}, []counter.Record{first, buried("header:r", "replayed", 0)}, "replayed", 0},
		{"replayed, and not counted", amqp.Table{GenerationHeader: "r"}, []counter.Record{first, second}, "", 1},
		{"replayed, and moved back", amqp.Table{GenerationHeader: "r"}, []counter.Record{first, second, hourOldReplay, movedBack}, "moved back", 1},
		{"replayed, moved back, and the broker goes on counting", amqp.Table{GenerationHeader: "r", "x-death": []any{death("orders", "rejected", 3)}},
			[]counter.Record{first, second, hourOldReplay, goneOn}, "gone on", 0},
		{"the store's clock is slow", nil, []counter.Record{buried("", "first", 5*time.Minute)}, "first", 1},
	} {
		s := &shelf{lives: map[string]counter.Record{}}
		for _, r := range tc.records {
			s.lives[r.Generation] = r
		}
		headers := amqp.Table{"x-death": []any{death("orders", "rejected", 1)}}
		for k, v := range tc.headers {
			headers[k] = v
		}
		j := &joiner{records: s, vhost: "/"}
		for range 2 {
			l := letterOf(headers)
			if err := j.join(t.Context(), []*Message{l}); err != nil {
				t.Fatal(err)
			}
			got := ""
			if l.Record != nil {
				got = l.Record.Reason
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
