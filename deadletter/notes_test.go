package deadletter

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter"
)

// recorder records the removals, or fails.
type recorder struct {
	fakeRecords
	got  []map[string][]string // generations, by queue
	fail error
}

func (s *recorder) NoteRemoved(ctx context.Context, vhost, queue string, dead []counter.Message) error {
	if ctx.Err() != nil || vhost != "/" {
		return errors.New("must not be called")
	}
	var generations []string
	for _, m := range dead {
		generations = append(generations, m.ID+" "+m.Generation)
	}
	s.got = append(s.got, map[string][]string{queue: generations})
	return s.fail
}

// removedFrom is a dead letter that died in a queue, with a record in that state; "none": without one.
func removedFrom(queue string, state counter.State) *Message {
	m := &Message{ID: "1", Queue: queue, Origin: Death{Queue: queue}, diedIn: "gen"}
	if state != "none" {
		m.Record = &counter.Record{State: state}
	}
	return m
}

func TestNotes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &recorder{}
		n := notes{records: s, vhost: "/"}
		ctx, cancel := context.WithCancel(t.Context())
		expect := func(want ...map[string][]string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, s.got); diff != "" || n.err != nil {
				t.Errorf("%v, -want +got:\n%s", n.err, diff)
			}
			s.got = nil
		}
		dead := removedFrom("orders", counter.StateDeadLetter)
		n.send(ctx)
		expect()
		n.add([]*Message{dead, removedFrom("orders", "none"), removedFrom("orders", counter.StateLive), dead})
		n.send(ctx)
		expect(map[string][]string{"orders": {"1 gen", "1 gen"}})
		n.add([]*Message{dead})
		n.send(ctx) // too soon
		expect()
		time.Sleep(noteEvery)
		n.add([]*Message{dead})
		n.send(ctx)
		expect(map[string][]string{"orders": {"1 gen", "1 gen"}})
		n.add([]*Message{removedFrom("other", counter.StateDeadLetter)})
		cancel()
		n.finish(ctx)
		expect(map[string][]string{"other": {"1 gen"}})
		n.finish(ctx)
		expect()
	})
}

// TestNotesWithoutAStore: a removal that could not be noted is noted in the end, or the first error is kept.
func TestNotesWithoutAStore(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			first := errors.New("the first")
			s := &recorder{fail: first}
			n := notes{records: s, vhost: "/"}
			n.add([]*Message{removedFrom("orders", counter.StateDeadLetter)})
			n.send(t.Context())
			synctest.Wait()
			if s.fail = nil; !back {
				s.fail = errors.New("the second")
			}
			n.add([]*Message{removedFrom("orders", counter.StateDeadLetter)})
			n.finish(t.Context())
			if len(s.got) != 2 || len(s.got[1]["orders"]) != 2 || errors.Is(n.err, first) == back {
				t.Errorf("back %v: %v, %v", back, s.got, n.err)
			}
		})
	}
	none := notes{}
	none.add([]*Message{removedFrom("orders", counter.StateDeadLetter)})
	none.finish(t.Context())
	if none.err != nil {
		t.Error(none.err)
	}
}
