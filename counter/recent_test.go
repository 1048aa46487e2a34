package counter

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// loadedStore counts the documents that are loaded.
type loadedStore struct {
	Store
	docs, saves atomic.Int64
}

func (s *loadedStore) Save(ctx context.Context, of Queue, c Change) (bool, error) {
	s.saves.Add(1)
	return s.Store.Save(ctx, of, c)
}

func (s *loadedStore) Load(ctx context.Context, of Queue, names ...string) (time.Time, []Doc, error) {
	s.docs.Add(int64(len(names)))
	return s.Store.Load(ctx, of, names...)
}

// TestRecent: a busy queue is loaded once a second, a fresh message never, and one that this process wrote last never.
func TestRecent(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := &loadedStore{Store: newMemoryStore()}
		c := Over(s, nil)
		defer c.Close()
		loads := func(want int64, what string) {
			t.Helper()
			if got := s.docs.Swap(0); got != want {
				t.Errorf("%s: %d documents were loaded, want %d", what, got, want)
			}
		}
		fails := func(id string, first bool, want string) {
			t.Helper()
			a := attempt(Message{VHost: "/", Queue: "q", ID: id}, fmt.Sprint("t", time.Now().UnixNano(), id))
			a.First = first
			if got := show(c.Fail(t.Context(), a, Failure{Limit: 3})); got != want {
				t.Errorf("%s: got %s, want %s", id, got, want)
			}
			time.Sleep(time.Millisecond)
		}
		fails("a", true, "REQUEUE 1+0 fence 0")
		loads(3, "a fresh message of a queue that is not known")
		fails("b", true, "REQUEUE 1+0 fence 0")
		loads(0, "another fresh message")
		fails("a", false, "REQUEUE 2+0 fence 0")
		loads(0, "a message that this process wrote last")
		fails("a", false, "EXHAUSTED 3+0 fence 0")
		loads(0, "a message that is exhausted")
		if n := len(c.recent.records); n != 1 {
			t.Errorf("%d records are kept, want that of b", n)
		}
		fails("c", false, "REQUEUE 1+0 fence 0")
		loads(1, "a message of another process")
		time.Sleep(2 * recentFor)
		fails("b", false, "REQUEUE 2+0 fence 0")
		loads(3, "a queue after a while")
		long := func(try int) {
			t.Helper()
			a := attempt(Message{VHost: "/", Queue: "q", ID: "long"}, fmt.Sprint("long", try))
			a.First, a.Consumer = true, strings.Repeat("c", 200) // each attempt is the first, if it is retried in place
			_, err := c.Fail(t.Context(), a, Failure{Limit: 1000, Reason: strings.Repeat(fmt.Sprint(try), rules.MaxReason)})
			need(t, err)
		}
		for try := range 30 {
			long(try)
		}
		s.docs.Store(0)
		s.saves.Store(0)
		long(30)
		loads(1, "a long record")
		if n := s.saves.Load(); n != 1 {
			t.Errorf("a long record was saved %d times, want once", n)
		}
		for i := range recentRecords {
			fails(fmt.Sprint(i), true, "REQUEUE 1+0 fence 0")
		}
		if n := len(c.recent.records); n != recentRecords {
			t.Errorf("%d records are kept, want %d", n, recentRecords)
		}
	})
}

// TestRecentIsOld: a step never goes by a document that another process has changed, whether the step saves or not.
func TestRecentIsOld(t *testing.T) {
	for _, s := range stores(t) {
		if s.Counter == nil {
			continue
		}
		t.Run(s.name, func(t *testing.T) {
			one, two := byRules(s.Counter), byRules(s.Counter)
			at := Message{VHost: "/", Queue: "recent"}
			step := func(of *Counter, id, token string, first, start bool) string {
				a := attempt(at, token)
				a.ID, a.First = id, first
				if start {
					reply, err := of.Start(t.Context(), a, rules.ModeUntracked, testLimit)
					return fmt.Sprint(reply.Code, " ", reply.Counted(), " ", err)
				}
				reply, err := of.Fail(t.Context(), a, Failure{Limit: testLimit, Reason: "boom"})
				return fmt.Sprint(reply.Code, " ", reply.Counted(), " ", err)
			}
			want := func(what, got, want string) {
				t.Helper()
				if want += " <nil>"; got != want {
					t.Errorf("%s: got %s, want %s", what, got, want)
				}
			}
			// Each begins with a record, and a queue, that the first process has just written.
			known := func(id string) {
				t.Helper()
				want(id, step(one, id, "known", false, false), "REQUEUE 1")
			}
			known("failed")
			want("another process", step(two, "failed", "other", false, false), "REQUEUE 2")
			want("after another process", step(one, "failed", "last", false, false), "EXHAUSTED 3")

			known("repeated") // the repetition saves nothing
			want("another process", step(two, "repeated", "other", false, false), "REQUEUE 2")
			want("a repetition", step(one, "repeated", "known", false, false), "REQUEUE 2")

			known("exhausted")
			for _, token := range []string{"other", "last"} {
				step(two, "exhausted", token, false, false)
			}
			want("START after another process", step(one, "exhausted", "again", false, true), "EXHAUSTED 3")

			known("fresh")
			want("a message that is not as fresh", step(two, "fresh", "other", true, false), "REQUEUE 2")

			known("skipped")
			_, err := two.Admin().Skip(t.Context(), Message{VHost: at.VHost, Queue: at.Queue, ID: "skipped"}, Note{Why: "test"})
			need(t, err)
			want("after a skip", step(one, "skipped", "next", false, false), "EXHAUSTED 2")

			known("queue")
			none := 0
			need(t, two.Admin().SetLimit(t.Context(), at.VHost, at.Queue, Override{MaxRetries: &none, Note: Note{Why: "test"}}))
			want("after a limit", step(one, "queue", "next", false, false), "EXHAUSTED 2")
		})
	}
}
