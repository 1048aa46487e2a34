package counter

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/panics"
)

// slowStore is a Store with round trips, which it counts. Save waits for the first of them.
type slowStore struct {
	Store
	saves atomic.Int64
	begin chan struct{}
}

func (s *slowStore) Save(ctx context.Context, of Queue, c Change) (bool, error) {
	s.saves.Add(1)
	<-s.begin
	if name := overlap(c); name != "" {
		return false, fmt.Errorf("the change touches %q twice", name)
	}
	return s.Store.Save(ctx, of, c)
}

// overlap returns a document or member that is written, and touched again by the same change.
func overlap(c Change) string {
	written, touched := map[string]bool{}, map[string]int{}
	touch := func(name string, writes bool) {
		touched[name]++
		written[name] = written[name] || writes
	}
	for _, d := range c.Docs {
		touch(d.Name, true)
	}
	for _, d := range c.Same {
		touch(d.Name, false)
	}
	for _, s := range c.Add {
		touch(s.Doc, false)
	}
	for _, m := range c.Sets {
		touch(m.Set+" "+m.Name, true)
	}
	for name, n := range touched {
		if n > 1 && written[name] {
			return name
		}
	}
	return ""
}

// TestStepsOfOneSaveSeeEachOther: each step sees the documents of the queue as the one before left them, also the first
// tombstones of a queue. No document is written twice.
func TestStepsOfOneSaveSeeEachOther(t *testing.T) {
	s := &slowStore{Store: newMemoryStore(), begin: make(chan struct{})}
	close(s.begin)
	var some []*taking
	for i := range 3 {
		some = append(some, newTaking(message(fmt.Sprint(i)), func(_ *Record, q *rules.Queue, now time.Time) (Reply,
			time.Duration) {
			if q.Judged = true; i == 1 {
				q.Breaker.Permits++
			}
			if q.Tombstones.Count++; q.Tombstones.Count == 1 {
				q.Tombstones.Since = now
			}
			return Reply{}, time.Hour
		}))
	}
	c := Over(s, nil)
	again, err := c.takeSome(t.Context(), Queue{"/", "orders"}, some)
	if len(again) > 0 || err != nil {
		t.Errorf("%d steps are to be taken again, %v", len(again), err)
	}
	state, err := c.Admin().state(t.Context(), Queue{"/", "orders"})
	if state.Tombstones.Count != 3 || state.Breaker.Permits != 1 || err != nil {
		t.Errorf("%+v, %d permits, %v", state.Tombstones, state.Breaker.Permits, err)
	}
}

// TestOverSharesRoundTrips: steps that arrive while others are under way go together, though several are of one
// message, and some write the queue's breaker.
func TestOverSharesRoundTrips(t *testing.T) {
	for _, breaker := range []int{0, 100} {
		slow := &slowStore{Store: newMemoryStore(), begin: make(chan struct{})}
		c := Over(slow, nil)
		var sending panics.Group
		for i := range 100 {
			for slow.saves.Load() < min(int64(i), 1) { // the first step waits in its flush
				time.Sleep(time.Millisecond)
			}
			sending.Go(func() error {
				a := attempt(Message{VHost: "/", Queue: "q", ID: fmt.Sprint(i % 50)}, fmt.Sprint("t", i))
				a.Progress.Breaker = breaker
				_, err := c.Fail(t.Context(), a, Failure{Limit: 2, Reason: "boom"})
				return err
			})
		}
		waiting := func() int {
			c.pipe.mu.Lock()
			defer c.pipe.mu.Unlock()
			return len(c.pipe.lines[Queue{"/", "q"}].waiting)
		}
		for waiting() < 99 {
			time.Sleep(time.Millisecond)
		}
		close(slow.begin)
		need(t, sending.Wait())
		state, err := c.Admin().State(t.Context(), "/", "q")
		dead := state.Tombstones
		if dead.Count != 50 || err != nil {
			t.Errorf("breaker %d: %+v, %v", breaker, dead, err)
		}
		if n := slow.saves.Load(); n > 12 {
			t.Errorf("breaker %d: 100 steps took %d Saves", breaker, n)
		}
		if breaker > 0 {
			_, docs, _ := slow.Load(t.Context(), Queue{"/", "q"}, docBreaker)
			if docs[0].Data == "" {
				t.Error("no step wrote the breaker")
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// TestOverRefuses: a program without a Store, and a record that cannot be read.
func TestOverRefuses(t *testing.T) {
	none := Over(nil, nil)
	_, err := none.Start(t.Context(), attempt(Message{Queue: "q", ID: "a"}, "t"), rules.ModeShared, 1)
	if !errors.As(err, new(*FieldError)) || !strings.Contains(err.Error(), "a Store") {
		t.Errorf("without a Store: %v", err)
	}
	if err := none.Close(); err != nil {
		t.Error(err)
	}
	c := Over(newMemoryStore(), nil)
	bad := Doc{Name: docRecord(member("bad", "")), Data: "no record", Any: true}
	need(t, errOf(c.store.Save(t.Context(), Queue{"/", "q"}, Change{Docs: []Doc{bad}})))
	var sending panics.Group
	for i := range 20 {
		id := map[bool]string{true: "bad", false: "good"}[i%2 == 0]
		sending.Go(func() error {
			_, err := c.Fail(t.Context(), attempt(Message{VHost: "/", Queue: "q", ID: id}, fmt.Sprint("t", i)),
				Failure{Limit: 20})
			if errors.Is(err, ErrForeign) != (id == "bad") || err != nil && !strings.Contains(err.Error(), "strikes_doc") {
				return fmt.Errorf("%s: %w", id, err)
			}
			return nil
		})
	}
	if err := sending.Wait(); err != nil {
		t.Error(err)
	}
}

// TestLongestTTL: tombstones are counted, however long records are kept.
func TestLongestTTL(t *testing.T) {
	c := Over(newMemoryStore(), &Options{TTL: math.MaxInt64})
	defer c.Close()
	for _, id := range []string{"a", "b"} {
		_, err := c.Fail(t.Context(), attempt(Message{VHost: "/", Queue: "q", ID: id}, "t"), Failure{Limit: 1})
		need(t, err)
	}
	state, err := c.Admin().State(t.Context(), "/", "q")
	if state.Tombstones.Count != 2 || err != nil {
		t.Errorf("%+v, %v", state.Tombstones, err)
	}
}

// warned is a Store with a fault of its own.
type warned struct{ Store }

func (warned) Examine(context.Context) ([]Finding, error) {
	return []Finding{{Code: "store-lag", Seen: "a replica lags", Impact: "counts may be lost"},
		{Code: "store-full", Severe: true}}, nil
}

// TestOverWarns: Check warns of each fault that may lose counts, whatever the Store calls it.
func TestOverWarns(t *testing.T) {
	got, err := Over(warned{newMemoryStore()}, nil).Check(t.Context())
	if err != nil || len(got) != 1 || !strings.Contains(got[0], "a replica lags") {
		t.Errorf("%q, %v", got, err)
	}
}

// TestStartRefuses: a mode that no attempt has would count as a shared one.
func TestStartRefuses(t *testing.T) {
	c := NewMemory(nil)
	for _, mode := range []rules.Mode{-1, rules.ModeReserved, 99} {
		reply, err := c.Start(t.Context(), attempt(message("1"), "a"), mode, 3)
		var refused *FieldError
		if !errors.As(err, &refused) || refused.Field != "mode" {
			t.Errorf("%v: %+v, %v", mode, reply, err)
		}
	}
}
