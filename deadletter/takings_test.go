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

// tally is told what was taken, or fails.
type tally struct {
	shelf
	got  []map[string][]string // generations, by queue
	fail error
}

func (s *tally) NoteRemoved(ctx context.Context, vhost, queue string, dead []counter.Message) error {
	if ctx.Err() != nil || vhost != "/" {
		return errors.New("not to be told")
	}
	var lives []string
	for _, m := range dead {
		lives = append(lives, m.ID+" "+m.Generation)
	}
	s.got = append(s.got, map[string][]string{queue: lives})
	return s.fail
}

// takenFrom is a letter that died in a queue, with a record in that state; "none": without one.
func takenFrom(queue string, state counter.State) *Message {
	l := &Message{ID: "1", Origin: Death{Queue: queue}, diedIn: "gen"}
	if state != "none" {
		l.Record = &counter.Record{State: state}
	}
	return l
}

func TestTakings(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &tally{}
		take := takings{records: s, vhost: "/"}
		ctx, cancel := context.WithCancel(t.Context())
		expect := func(want ...map[string][]string) {
			t.Helper()
			synctest.Wait()
			if diff := cmp.Diff(want, s.got); diff != "" || take.err != nil {
				t.Errorf("%v, -want +got:\n%s", take.err, diff)
			}
			s.got = nil
		}
		dead := takenFrom("orders", counter.StateDeadLetter)
		take.tell(ctx)
		expect()
		take.add([]*Message{dead, takenFrom("orders", "none"), takenFrom("orders", counter.StateLive), dead})
		take.tell(ctx)
		expect(map[string][]string{"orders": {"1 gen", "1 gen"}})
		take.add([]*Message{dead})
		take.tell(ctx) // too soon
		expect()
		time.Sleep(noteEvery)
		take.add([]*Message{dead})
		take.tell(ctx)
		expect(map[string][]string{"orders": {"1 gen", "1 gen"}})
		take.add([]*Message{takenFrom("other", counter.StateDeadLetter)})
		cancel()
		take.finish(ctx)
		expect(map[string][]string{"other": {"1 gen"}})
		take.finish(ctx)
		expect()
	})
}

// TestTakingsOfAStoreThatIsAway: what could not be noted is noted in the end, or the first error is kept.
func TestTakingsOfAStoreThatIsAway(t *testing.T) {
	for _, back := range []bool{true, false} {
		synctest.Test(t, func(t *testing.T) {
			first := errors.New("the first")
			s := &tally{fail: first}
			take := takings{records: s, vhost: "/"}
			take.add([]*Message{takenFrom("orders", counter.StateDeadLetter)})
			take.tell(t.Context())
			synctest.Wait()
			if s.fail = nil; !back {
				s.fail = errors.New("the second")
			}
			take.add([]*Message{takenFrom("orders", counter.StateDeadLetter)})
			take.finish(t.Context())
			if len(s.got) != 2 || len(s.got[1]["orders"]) != 2 || errors.Is(take.err, first) == back {
				t.Errorf("back %v: %v, %v", back, s.got, take.err)
			}
		})
	}
	none := takings{}
	none.add([]*Message{takenFrom("orders", counter.StateDeadLetter)})
	none.finish(t.Context())
	if none.err != nil {
		t.Error(none.err)
	}
}
