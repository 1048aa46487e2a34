package counter

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
)

// TestDeadReasons: it returns the same tombstones as Dead, with the same reasons, over several pages.
func TestDeadReasons(t *testing.T) {
	for _, c := range counters(t) {
		texts := []string{"", "no stock", "a\nb\tc\r\n", "\x00\xff", strings.Repeat("long ", 400)}
		fill(t, c, setDead, "exhausted", longPage, func(i int) int64 { return int64(i) })
		for i := range 70 {
			m := message(fmt.Sprint(i))
			if i%7 == 0 {
				mustFail(t, c, m, "a") // retried, and no tombstone
				continue
			}
			f := Failure{Cause: []Cause{CauseRejected, CausePanicked}[i%2], Reason: texts[i%len(texts)]}
			need(t, errOf(c.Fail(t.Context(), Attempt{Message: m, Token: "a", Consumer: "a b"}, f)))
		}
		need(t, c.Admin().NoteRemoved(t.Context(), "/", "orders", []Message{message("1"), message("2")}))
		want := map[string]DeadReason{}
		for d, err := range c.Admin().Dead(t.Context(), "/", "orders", "") {
			need(t, err)
			want[d.ID] = DeadReason{ID: d.ID, Cause: d.Cause, Reason: d.Reason, At: d.LastTime}
		}
		got := map[string]DeadReason{}
		for part, err := range c.Admin().DeadReasons(t.Context(), "/", "orders", 0) {
			need(t, err)
			for _, r := range part {
				got[r.ID] = r
			}
		}
		if diff := cmp.Diff(want, got); diff != "" || len(got) != longPage+58 {
			t.Errorf("%d reasons, -want +got\n%.2000s", len(got), diff)
		}
	}
}

// TestDeadReasonsEnds: a caller that stops early leaves nothing running, which goleak sees, and an error ends it.
func TestDeadReasonsEnds(t *testing.T) {
	for _, c := range counters(t) {
		fill(t, c, setDead, "exhausted", 3*longPage/2, func(i int) int64 { return int64(i) })
		for range c.Admin().DeadReasons(t.Context(), "/", "orders", 0) {
			break
		}
	}
	for _, c := range counters(t) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		n := 0
		for _, err := range c.Admin().DeadReasons(ctx, "/", "orders", 0) {
			if n++; !errors.Is(err, context.Canceled) {
				t.Errorf("cancelled: %v", err)
			}
		}
		if n != 1 {
			t.Errorf("yields %d times, want 1", n)
		}
	}
}

// slowRead is a Store whose second Read takes until a third one begins.
type slowRead struct {
	Store
	third chan struct{}
	reads atomic.Int32
	last  atomic.Value // the context of the last Read
}

func (s *slowRead) Read(ctx context.Context, of Queue, set string, page []Entry) ([]string, error) {
	s.last.Store(ctx)
	switch s.reads.Add(1) {
	case 2:
		select {
		case <-s.third:
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	case 3:
		close(s.third)
	}
	return s.Store.Read(ctx, of, set, page)
}

// TestDeadReasonsReadsAhead: after the first page two are read at a time, and yielded in their order. A caller that
// stops early does not cancel the Read that is under way: a database would lose its connection.
func TestDeadReasonsReadsAhead(t *testing.T) {
	store := &slowRead{Store: newMemoryStore(), third: make(chan struct{})}
	c := Over(store, nil)
	ids := fill(t, c, setDead, "exhausted", 3*longPage, func(i int) int64 { return -int64(i) })
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	var got []string
	for part, err := range c.Admin().DeadReasons(ctx, "/", "orders", 0) {
		need(t, err)
		for _, r := range part {
			got = append(got, r.ID)
		}
	}
	if !slices.Equal(got, ids) {
		t.Errorf("got %d of %d ids, or in another order", len(got), len(ids))
	}
	for _, err := range c.Admin().DeadReasons(ctx, "/", "orders", 0) {
		need(t, err)
		break
	}
	if err := store.last.Load().(context.Context).Err(); err != nil {
		t.Errorf("a Read was cancelled: %v", err)
	}
}

// countingRead is a Store that counts the records that are read.
type countingRead struct {
	Store
	read atomic.Int64
}

func (s *countingRead) Read(ctx context.Context, of Queue, set string, page []Entry) ([]string, error) {
	s.read.Add(int64(len(page)))
	return s.Store.Read(ctx, of, set, page)
}

// TestDeadReasonsMost: no more are read than the caller asks for, and they are the newest. No page is empty: callers
// take another page as proof that there is more.
func TestDeadReasonsMost(t *testing.T) {
	for _, n := range []int{0, longPage, 4 * longPage} {
		store := &countingRead{Store: newMemoryStore()}
		c := Over(store, nil)
		ids := fill(t, c, setDead, "exhausted", n, func(i int) int64 { return -int64(i) })
		for _, most := range []int{1, longPage, longPage + 1, 5 * longPage} {
			store.read.Store(0)
			var got []string
			for part, err := range c.Admin().DeadReasons(t.Context(), "/", "orders", most) {
				need(t, err)
				if len(part) == 0 {
					t.Errorf("%d dead letters, most %d: an empty page", n, most)
				}
				for _, r := range part {
					got = append(got, r.ID)
				}
			}
			want := ids[:min(most, len(ids))]
			if n := store.read.Load(); !slices.Equal(got, want) || n != int64(len(want)) {
				t.Errorf("most %d: %d reasons and %d records read, want %d", most, len(got), n, len(want))
			}
		}
	}
}

// readPanics is a Store whose Read panics.
type readPanics struct{ Store }

func (readPanics) Read(context.Context, Queue, string, []Entry) ([]string, error) { panic("broken") }

// TestDeadReasonsPanics: a panic of the store is the caller's, before any page.
func TestDeadReasonsPanics(t *testing.T) {
	c := Over(readPanics{newMemoryStore()}, nil)
	fill(t, c, setDead, "exhausted", 10, func(i int) int64 { return -int64(i) })
	defer func() {
		if recover() == nil {
			t.Error("no panic")
		}
	}()
	for part, err := range c.Admin().DeadReasons(t.Context(), "/", "orders", 0) {
		t.Errorf("a page of %d, %v", len(part), err)
	}
}

// TestParseDeadReason: a text that is no tombstone is refused. A message that was in a delay queue has one word more.
func TestParseDeadReason(t *testing.T) {
	line := "1 0 1 5 0 %s 9 0 0 1000 20 failed . . 0 0 4 0 0 .;a=f 2 0 0 0 0\n"
	for _, moved := range []string{"", " 1:1:0:.:ab12"} {
		text := strings.Replace(fmt.Sprintf(line, "exhausted"), "\n", moved+"\n", 1) + "idwhy"
		if r, ok := rules.DecodeDead(text); !ok || r.ID != "id" || r.Reason != "why" ||
			!r.LastTime.Equal(time.UnixMilli(1020)) {
			t.Errorf("%q: %+v, %v", text, r, ok)
		}
	}
	for _, text := range []string{
		"", "x", fmt.Sprintf(line, ".") + "idwhy", fmt.Sprintf(line, "exhausted") + "i",
		strings.Replace(fmt.Sprintf(line, "exhausted"), " 2 0", " 99999999999999999999 0", 1) + "id",
		strings.Replace(fmt.Sprintf(line, "exhausted"), "\n", " 7\n", 1) + "id",
		strings.Replace(fmt.Sprintf(line, "exhausted"), "\n", " 1:1:0:.:ab12 7\n", 1) + "id",
	} {
		if r, ok := rules.DecodeDead(text); ok {
			t.Errorf("%q: %+v", text, r)
		}
	}
}
