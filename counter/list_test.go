package counter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
)

// deadIDs lists from a place on, limit at most; 0: all.
func deadIDs(t *testing.T, c *Counter, after string, limit int) (ids []string, last string) {
	t.Helper()
	for d, err := range c.Admin().Dead(t.Context(), "/", "orders", after) {
		need(t, err)
		ids, last = append(ids, d.ID), d.After
		if len(ids) == limit {
			break
		}
	}
	return ids, last
}

// TestDead: the newest come first, without live and removed messages, and a place continues where it ended whatever is
// added or removed meanwhile.
func TestDead(t *testing.T) {
	for _, c := range counters(t) {
		var want []string
		var all []Message
		for i := range 30 {
			m := message(fmt.Sprintf("%02d", i))
			mustFail(t, c, m, "a")
			if i%3 > 0 {
				_, err := c.Fail(t.Context(), attempt(m, "b"), reject)
				need(t, err)
				want = append(want, m.ID)
			}
			all = append(all, m)
			c.age(t, 2*time.Second, all...)
		}
		slices.Reverse(want)
		if got, _ := deadIDs(t, c, "", 0); !slices.Equal(got, want) {
			t.Errorf("all: %q, want %q", got, want)
		}
		first, place := deadIDs(t, c, "", 5)
		if !slices.Equal(first, want[:5]) {
			t.Errorf("the first page: %q, want %q", first, want[:5])
		}
		need(t, errOf(c.Fail(t.Context(), attempt(message("new"), "a"), reject)))
		need(t, c.Admin().NoteRemoved(t.Context(), "/",
			"orders", []Message{message(want[4]), message(want[5])}))
		if got, _ := deadIDs(t, c, place, 0); !slices.Equal(got, want[6:]) {
			t.Errorf("the rest: %q, want %q", got, want[6:])
		}
		if n, err := c.Admin().CountDead(t.Context(), "/", "orders"); n != len(want)-1 || err != nil {
			t.Errorf("%d are counted, %v, want %d", n, err, len(want)-1)
		}
		for r, err := range c.Admin().Live(t.Context(), "/", "orders") {
			if err != nil || r.State != StateLive || slices.Contains(want, r.ID) {
				t.Errorf("among the live: %+v, %v", r, err)
			}
		}
	}
}

// leaving calls leave after each page.
type leaving struct{ leave func() }

func (leaving) DialHook(next redis.DialHook) redis.DialHook { return next }
func (leaving) ProcessPipelineHook(next redis.ProcessPipelineHook) redis.ProcessPipelineHook {
	return next
}
func (l leaving) ProcessHook(next redis.ProcessHook) redis.ProcessHook {
	return func(ctx context.Context, cmd redis.Cmder) error {
		if cmd.Name() == "zrevrangebyscore" {
			defer l.leave()
		}
		return next(ctx, cmd)
	}
}

// TestPageOfOneScore: a page begins behind its place, also if a member of the same score leaves while Redis is asked
// twice.
func TestPageOfOneScore(t *testing.T) {
	server := miniredis.RunT(t)
	c, err := Dial("redis://"+server.Addr(), nil)
	need(t, err)
	defer c.Close()
	of := Queue{"/", "orders"}
	key := c.opts.queueKey(of.VHost, of.Name) + setIndex
	const n, many = 3, 2 * sameScore
	name := func(i int) string { return fmt.Sprintf("%03d", many-i) }
	for i := range many {
		need(t, errOf(server.ZAdd(key, 1, name(i))))
	}
	c.rdb.AddHook(leaving{leave: func() { _, _ = server.ZRem(key, name(0)) }})
	place := sameScore + n - 1 // the last member of the first reply
	found, err := c.store.Page(t.Context(), of, setIndex, Entry{name(place), 1}, n)
	if err != nil || len(found) != n || found[0].Name != name(place+1) {
		t.Errorf("the page after %s: %v, %v", name(place), found, err)
	}
}

// muchLater is a Store whose clock is later than this machine's by more than a record lives.
type muchLater struct{ Store }

func (s muchLater) Load(ctx context.Context, of Queue, names ...string) (time.Time, []Doc, error) {
	now, docs, err := s.Store.Load(ctx, of, names...)
	return now.Add(DefaultTTL + time.Minute), docs, err
}

// TestCountDeadByTheClockOfTheStore: it expires the tombstones.
func TestCountDeadByTheClockOfTheStore(t *testing.T) {
	store := newMemoryStore()
	need(t, errOf(Over(store, nil).Fail(t.Context(), attempt(message("1"), "a"), reject)))
	if n, err := Over(muchLater{store}, nil).Admin().CountDead(t.Context(), "/", "orders"); n != 0 || err != nil {
		t.Errorf("%d tombstones are counted after their end, %v", n, err)
	}
}

// deadFails is a Store that cannot list dead letters.
type deadFails struct{ Store }

func (s deadFails) Page(ctx context.Context, of Queue, set string, after Entry, n int) ([]Entry, error) {
	if set == setDead {
		return nil, errors.New("broken")
	}
	return s.Store.Page(ctx, of, set, after, n)
}

// TestListEndsWithAnError: no record follows it.
func TestListEndsWithAnError(t *testing.T) {
	c := Over(deadFails{newMemoryStore()}, nil)
	need(t, errOf(c.Fail(t.Context(), attempt(message("1"), "a"), Failure{Limit: 4})))
	failed := false
	for r, err := range c.Admin().List(t.Context(), "/", "orders") {
		if failed {
			t.Errorf("after the error: %+v, %v", r, err)
		}
		failed = failed || err != nil
	}
	if !failed {
		t.Error("no error")
	}
}

// TestDeadAtOneTime: places tell apart messages that died in one millisecond, however many.
func TestDeadAtOneTime(t *testing.T) {
	const n = 3 * page
	for _, c := range servers(t) {
		k := c.opts.keys(message("1"))
		need(t, errOf(c.Fail(t.Context(), attempt(message("1"), "a"), reject)))
		text := c.rdb.Get(t.Context(), k.record).Val()
		at := time.Now().Add(time.Hour).UnixMilli()
		for i := range n {
			id := fmt.Sprintf("%04d", i)
			member := strings.Repeat("0", 28) + id + ":0"
			mustDo(t, c.rdb, "SET", strings.TrimSuffix(k.index, "index")+"r:"+member, text)
			mustDo(t, c.rdb, "ZADD", k.dead, at, member)
		}
		seen := map[string]bool{}
		for after := ""; ; {
			read := 0
			for d, err := range c.Admin().Dead(t.Context(), "/", "orders", after) {
				if err != nil || seen[d.After] {
					t.Fatalf("%q twice, or %v", d.After, err)
				}
				seen[d.After], after = true, d.After
				if read++; read == 7 {
					break
				}
			}
			if read == 0 {
				break
			}
		}
		if len(seen) != n+1 {
			t.Errorf("%d seen, want %d", len(seen), n+1)
		}
	}
}

// TestDeadEnds: with its context, and with an error for a place that is none.
func TestDeadEnds(t *testing.T) {
	for _, c := range counters(t) {
		need(t, errOf(c.Fail(t.Context(), attempt(message("1"), "a"), reject)))
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		for _, err := range c.Admin().Dead(ctx, "/", "orders", "") {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		}
		for _, after := range []string{"x", "12", "-", "x-y"} {
			n := 0
			for _, err := range c.Admin().Dead(t.Context(), "/", "orders", after) {
				if n++; !errors.As(err, new(*FieldError)) || !strings.Contains(err.Error(), "place") {
					t.Errorf("%q: %v", after, err)
				}
			}
			if n != 1 {
				t.Errorf("%q: yields %d times", after, n)
			}
		}
	}
}

// TestDeadStayInOrder: a tombstone that is renewed stays where it is, unless that goes on for long.
func TestDeadStayInOrder(t *testing.T) {
	for _, c := range counters(t) {
		both := []Message{message("1"), message("2")}
		for _, m := range both {
			need(t, errOf(c.Fail(t.Context(), attempt(m, "a"), reject)))
			c.age(t, time.Minute, both...)
		}
		for _, tc := range []struct {
			after time.Duration
			want  string
		}{{5 * time.Minute, "2 1"}, {DefaultTTL / 8, "1 2"}} {
			for passed := time.Duration(0); passed < tc.after; passed += 9 * time.Minute {
				c.age(t, min(9*time.Minute, tc.after-passed), both...)
				for _, m := range both[:1] {
					if got := show(c.Start(t.Context(), attempt(m, "b"), rules.ModeShared, 9)); !strings.HasPrefix(got, "EXHAUSTED") {
						t.Fatal(got)
					}
				}
			}
			if got, _ := deadIDs(t, c, "", 0); strings.Join(got, " ") != tc.want {
				t.Errorf("renewed for %v: %q, want %q", tc.after, got, tc.want)
			}
		}
	}
}
