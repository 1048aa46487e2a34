package counter

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
)

func message(id string) Message { return Message{VHost: "/", Queue: "orders", ID: id} }

func mustFail(t *testing.T, s attempts, m Message, token string) {
	t.Helper()
	need(t, errOf(s.Fail(t.Context(), attempt(m, token), again)))
}

func generations(records []Record) []string {
	var out []string
	for _, r := range records {
		out = append(out, r.Generation)
	}
	return out
}

func TestGetFindsAllLivesNewestFirst(t *testing.T) {
	for _, s := range stores(t) {
		var all []Message
		for _, generation := range []string{"", "1@1700000000", "2@1700000000"} {
			m := message("1")
			m.Generation = generation
			mustFail(t, s, m, "a")
			all = append(all, m)
			s.age(t, time.Hour, all...)
		}
		mustFail(t, s, message("11"), "a") // neither an id that begins alike
		mustFail(t, s, Message{VHost: "/", Queue: "bills", ID: "1"}, "a")
		records, err := s.Get(t.Context(), "/", "orders", "1")
		need(t, err)
		if diff := cmp.Diff([]string{"2@1700000000", "1@1700000000", ""}, generations(records)); diff != "" {
			t.Errorf("%s: generations -want +got:\n%s", s.name, diff)
		}
		if r := records[0]; r.VHost != "/" || r.Queue != "orders" || r.ID != "1" || r.Failures != 1 || r.TTL <= 0 {
			t.Errorf("%s: %+v", s.name, r)
		}
		if got, err := s.Get(t.Context(), "/", "orders", "unknown"); len(got) != 0 || err != nil {
			t.Errorf("%s: of an id without a record: %v, %v", s.name, got, err)
		}
	}
}

// TestGetAll finds the generations of each id, also of a long one, which a record keeps in part.
func TestGetAll(t *testing.T) {
	long := strings.Repeat("x", 2*rules.MaxStoredID)
	for _, s := range stores(t) {
		for _, id := range []string{"1", "2", long + "a", long + "b"} {
			mustFail(t, s, message(id), "a")
		}
		again := message("2")
		again.Generation = "1@1700000000"
		mustFail(t, s, again, "b")
		ids := []string{"2", "unknown", long + "b", "2", long + "a"}
		all, err := s.GetAll(t.Context(), "/", "orders", ids)
		need(t, err)
		for id, want := range map[string]int{"2": 2, "unknown": 0, long + "a": 1, long + "b": 1, "1": 0} {
			if len(all[id]) != want {
				t.Errorf("%s: %d records of %.20q, want %d", s.name, len(all[id]), id, want)
			}
		}
	}
}

// TestGetInALargeIndex: the generations are found however much else the queue has.
func TestGetInALargeIndex(t *testing.T) {
	for _, c := range counters(t) {
		fillIndex(t, c, 2500, func(i int) int64 { return int64(i) })
		m := message("1")
		m.Generation = "9"
		mustFail(t, c, m, "a")
		records, err := c.Admin().Get(t.Context(), "/", "orders", "1")
		if err != nil || len(records) != 1 || records[0].Generation != "9" {
			t.Errorf("%+v, %v", records, err)
		}
	}
}

// fillIndex writes n records of a queue, and their entries with scores beyond now.
func fillIndex(t *testing.T, c *Counter, n int, score func(i int) int64) []string {
	t.Helper()
	return fill(t, c, setIndex, ".", n, score)
}

// fill writes n records of a state, and their entries of a set with scores beyond now.
func fill(t *testing.T, c *Counter, set, state string, n int, score func(i int) int64) []string {
	t.Helper()
	soon := time.Now().Add(time.Hour)
	var ids []string
	var some Change
	for i := range n {
		id := fmt.Sprintf("message %05d", i)
		ids = append(ids, id)
		some.Docs = append(some.Docs, Doc{Name: docRecord(member(id, "")), Expires: soon, Any: true,
			Data: fmt.Sprintf("1 0 0 0 0 %s 0 0 0 0 0 failed . . 0 0 4 0 0 .;a=f %d 0 0 0 0\n%swhy", state, len(id), id)})
		some.Sets = append(some.Sets, Member{Set: set, Name: member(id, ""), Score: soon.UnixMilli() + score(i),
			Expires: soon})
		if len(some.Docs) == 500 || i == n-1 {
			need(t, errOf(c.store.Save(t.Context(), Queue{"/", "orders"}, some)))
			some = Change{}
		}
	}
	return ids
}

func list(t *testing.T, c *Counter, queue string) []string {
	t.Helper()
	var ids []string
	for r, err := range c.Admin().List(t.Context(), "/", queue) {
		need(t, err)
		ids = append(ids, r.ID)
	}
	return ids
}

func TestListPages(t *testing.T) {
	for name, score := range map[string]func(i int) int64{
		"scores apart":             func(i int) int64 { return int64(-i) },
		"all equal":                func(int) int64 { return 0 },
		"ties across pages":        func(i int) int64 { return int64(-(i / 150)) },
		"a page of ties and a few": func(i int) int64 { return int64(-(i / page)) },
		"a tie of several pages":   func(i int) int64 { return int64(-(i / (2*page + 50))) },
	} {
		for _, n := range []int{1, page - 1, page, page + 1, 2*page + 77} {
			t.Run(fmt.Sprint(name, " ", n), func(t *testing.T) {
				for _, c := range counters(t) {
					want := fillIndex(t, c, n, score)
					got := list(t, c, "orders")
					if name == "scores apart" && !slices.Equal(want, got) {
						t.Error("not the one that was written last first")
					}
					slices.Sort(got)
					if diff := cmp.Diff(want, got); diff != "" {
						t.Errorf("-want +got:\n%s", diff)
					}
				}
			})
		}
	}
}

func TestListShowsTheLastWrittenFirst(t *testing.T) {
	for _, c := range counters(t) {
		for _, id := range []string{"1", "2", "3"} {
			mustFail(t, c, message(id), "a")
			c.age(t, time.Minute, message("1"), message("2"), message("3"))
		}
		mustFail(t, c, message("1"), "b")
		if diff := cmp.Diff([]string{"1", "3", "2"}, list(t, c, "orders")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
	}
}

func TestListPassesOverWhatIsGone(t *testing.T) {
	for _, c := range servers(t) {
		want := fillIndex(t, c, 3*page, func(i int) int64 { return int64(-i) })
		gone := rand.Perm(3 * page)[:2*page]
		for _, i := range append(gone, 0, 3*page-1) {
			c.rdb.Del(t.Context(), c.opts.keys(message(fmt.Sprintf("message %05d", i))).record)
			want[i] = ""
		}
		want = slices.DeleteFunc(want, func(id string) bool { return id == "" })
		if diff := cmp.Diff(want, list(t, c, "orders")); diff != "" {
			t.Errorf("-want +got:\n%s", diff)
		}
		if got := list(t, c, "no such queue"); len(got) != 0 {
			t.Errorf("a queue with nothing: %q", got)
		}
	}
}

func TestListEndsWhenItIsTold(t *testing.T) {
	for _, c := range counters(t) {
		fillIndex(t, c, 2*page+1, func(int) int64 { return 0 })
		n := 0
		for _, err := range c.Admin().List(t.Context(), "/", "orders") {
			need(t, err)
			if n++; n == page+1 {
				break
			}
		}
		if n != page+1 {
			t.Errorf("broke off after %d", n)
		}

		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var errs []error
		n = 0
		for _, err := range c.Admin().List(ctx, "/", "orders") {
			if err != nil {
				errs = append(errs, err)
				continue
			}
			n++
			cancel()
		}
		_, isMemory := c.store.(*memoryStore)
		if n != page/4 || len(errs) != 1 || !errors.Is(errs[0], context.Canceled) ||
			errors.As(errs[0], new(*StoreError)) == isMemory {
			t.Errorf("after the context was canceled: %d records of the first page, then %v", n, errs)
		}
	}
}

// TestNotesAreKept: who, when and why stay with the change, cut to a bound, whatever is in them.
func TestNotesAreKept(t *testing.T) {
	hostile := Note{By: "op\x1b[31m", Why: "because\n\x00\xff" + strings.Repeat("x", 2*MaxReason)}
	for _, s := range stores(t) {
		m := message("1")
		mustFail(t, s, m, "a")
		for _, err := range []error{
			s.LimitMessage(t.Context(), m, 5, hostile),
			s.SetLimit(t.Context(), m.VHost, m.Queue, Override{MaxRetries: new(5), Note: hostile}),
		} {
			needOf(t, s.name, err)
		}
		r := s.look(t, m).Record
		o, err := s.Limit(t.Context(), m.VHost, m.Queue)
		if err != nil || o == nil {
			t.Fatalf("%s: limit: %v, %v", s.name, o, err)
		}
		if r.Limit != testLimit || r.OwnLimit != 5 || r.InForce(nil) != 5 || r.InForce(o) != 5 || r.Consumer != "test" {
			t.Errorf("%s: %+v under %+v", s.name, r, o)
		}
		if err := s.LimitMessage(t.Context(), m, 0, hostile); err != nil || s.look(t, m).OwnLimit != 0 { // it is taken back
			t.Errorf("%s: a limit of 0: %v", s.name, err)
		}
		needOf(t, s.name, s.Reset(t.Context(), m, hostile))
		clean := s.look(t, m)
		if clean.indexed || clean.OwnLimit != 0 || clean.TTL < DefaultTTL-time.Minute || clean.Consumer != "test" {
			t.Errorf("%s: after the reset: %+v", s.name, clean)
		}
		skipped := message("2")
		mustFail(t, s, skipped, "a")
		needOf(t, s.name, errOf(s.Skip(t.Context(), skipped, hostile)))
		for what, got := range map[string]Note{"limit": o.Note, "reset": clean.Reset,
			"skip": s.look(t, skipped).Skipped} {
			if got.By != hostile.By || got.Why != hostile.Why[:MaxReason] || time.Since(got.At).Abs() > time.Minute {
				t.Errorf("%s: %s: %+v", s.name, what, got)
			}
		}
	}
}

// TestNotesAreReplaced: a reset leaves one note, whatever its text looks like.
func TestNotesAreReplaced(t *testing.T) {
	for _, s := range stores(t) {
		m := message("1")
		mustFail(t, s, m, "a")
		for _, why := range []string{"first", "reset 5 0 1\nx", "skip 1 2 3\n"} {
			needOf(t, s.name, s.Reset(t.Context(), m, Note{By: "reset 1 2 3\n", Why: why}))
			mustFail(t, s, m, "b"+why[:1])
			if r := s.look(t, m).Record; r.Reset.Why != strings.TrimRight(why, "\n") || r.Reset.By != "reset 1 2 3\n" ||
				r.Skipped != (Note{}) {
				t.Errorf("%s: %+v", s.name, r)
			}
		}
	}
}

// TestUnreadableRecord: a text that something else wrote, or cut short, is a record of nothing.
func TestUnreadableRecord(t *testing.T) {
	notes := "skip 1700000000000 2 3\nopwhyreset 1700000000000 0 1\nx"
	whole := fmt.Sprintf("1 0 2 0 0 . 0 0 0 0 0 timed-out . . 0 0 4 1 0 .;a=f 1 1 1 %d 0\nidh%sbecause", len(notes), notes)
	r, _ := parseRecord(Queue{}, whole)
	if r.ID != "i" || r.Generation != "d" || r.Consumer != "h" || r.Skipped.By != "op" || r.Reset.Why != "x" ||
		r.Cause != CauseTimedOut || r.Reason != "because" || r.Limit != 4 {
		t.Fatalf("%+v", r)
	}
	for n := range len(whole) - len("because") {
		if r, _ := parseRecord(Queue{}, whole[:n]); r.ID != "" || r.Failures != 0 {
			t.Errorf("of %d bytes: %+v", n, r)
		}
	}
	for _, lengths := range []string{" 9223372036854775807 1 1 ", " 1 99999999999999999999 1 ", " -1 1 1 "} {
		if r, _ := parseRecord(Queue{}, strings.Replace(whole, " 1 1 1 ", lengths, 1)); r.Failures != 0 {
			t.Errorf("%s: %+v", lengths, r)
		}
	}
	for n := range len(notes) {
		short := strings.Replace(whole[:len(whole)-len(notes)-len("because")]+notes[:n], fmt.Sprint(" ", len(notes), " 0\n"),
			fmt.Sprint(" ", n, " 0\n"), 1)
		if r, _ := parseRecord(Queue{}, short); r.ID != "i" || r.Reset.Why != "" {
			t.Errorf("notes of %d bytes: %+v", n, r)
		}
	}
}

func TestOperatorsArgumentsAreRefused(t *testing.T) {
	why := Note{Why: "because"}
	for _, s := range stores(t) {
		m := message("1")
		mustFail(t, s, m, "a")
		for what, err := range map[string]error{
			"own limit below 0":        s.LimitMessage(t.Context(), m, -1, why),
			"own limit of many":        s.LimitMessage(t.Context(), m, rules.MaxLimit+1, why),
			"own limit without reason": s.LimitMessage(t.Context(), m, 9, Note{}),
			"own limit without queue":  s.LimitMessage(t.Context(), Message{ID: "1"}, 9, why),
			"own limit without id":     s.LimitMessage(t.Context(), Message{Queue: "orders"}, 9, why),
			"reset without reason":     s.Reset(t.Context(), m, Note{By: "op"}),
			"limit below 0":            s.SetLimit(t.Context(), "/", "orders", Override{MaxRetries: new(-1), Note: why}),
			"limit too long": s.SetLimit(t.Context(), "/", "orders", Override{MaxRetries: new(MaxOverride + 1),
				Note: why}),
			"limit without reason": s.SetLimit(t.Context(), "/", "orders", Override{MaxRetries: new(1)}),
		} {
			if err == nil {
				t.Errorf("%s: accepted: %s", s.name, what)
			}
		}
		if r := s.look(t, m); r.OwnLimit != 0 || r.Failures != 1 {
			t.Errorf("%s: something was done: %+v", s.name, r)
		}
	}
}

// TestIndexIsTrimmed: entries whose records expired leave it as new ones come, and those of a queue that is idle with
// it.
func TestIndexIsTrimmed(t *testing.T) {
	for _, c := range servers(t) {
		var past []Message
		for i := range 40 {
			m := message(fmt.Sprint("past ", i))
			mustFail(t, c, m, "a")
			past = append(past, m)
		}
		live := message("live")
		mustFail(t, c, live, "a")
		c.age(t, DefaultTTL-time.Hour, append(past, live)...)
		mustFail(t, c, live, "b")
		c.age(t, 2*time.Hour, append(past, live)...)
		index := c.opts.keys(live).index
		came := 0
		for c.rdb.ZCard(t.Context(), index).Val() > int64(came)+1 {
			if came++; came > 1000 { // one in eight trims, by the clock
				t.Fatalf("%d entries after %d new ones", c.rdb.ZCard(t.Context(), index).Val(), came)
			}
			m := message(fmt.Sprint("new ", came))
			mustFail(t, c, m, "a")
			past = append(past, m)
		}
		if !c.look(t, live).indexed {
			t.Error("the live one was trimmed")
		}
		c.age(t, 2*DefaultTTL+time.Hour, append(past, live)...)
		if keys := keyspace(t, c); len(keys) != 0 {
			t.Errorf("an idle queue leaves %q", keys)
		}
	}
}

// TestOperatorsLimit: Limit returns the limit that the steps obey, and an error for a value that they ignore.
func TestOperatorsLimit(t *testing.T) {
	for _, tc := range []struct {
		set  string
		want int // limit in force where a consumer asks for 4
	}{
		{"0", 1}, {"1", 2}, {"7", 8}, {"-1", 1}, {"-5", 1}, {"007", 8}, {"1000", 1001}, {"1001", 1001}, {"999999999", 1001},
		{"", 4}, {"many", 4}, {"2.5", 4}, {"0x10", 4}, {"1e3", 4}, {"inf", 4}, {"nan", 4}, {" 7", 4}, {"7 ", 4}, {"+7", 4},
		{"-", 4}, {"--1", 4}, {"9999999999", 4}, {"99999999999999999999", 4}, {"1\x00", 4}, {"1\n", 4},
	} {
		t.Run(fmt.Sprintf("%q", tc.set), func(t *testing.T) {
			for _, c := range servers(t) {
				m := message("of " + tc.set)
				mustDo(t, c.rdb, "HSET", c.opts.keys(m).override, "max_retries", tc.set)
				o, err := c.Admin().Limit(t.Context(), m.VHost, m.Queue)
				if err == nil && o.Limit() != tc.want || err != nil && (!errors.Is(err, ErrOverride) || tc.want != 4) {
					t.Errorf("Limit: %d, %v, want %d", o.Limit(), err, tc.want)
				}
				got, err := c.Start(t.Context(), attempt(m, "a"), rules.ModeShared, 4)
				if err != nil || got.Limit != tc.want {
					t.Errorf("start: %+v, %v, want limit %d", got, err, tc.want)
				}
				got, err = c.Fail(t.Context(), attempt(m, "a"), Failure{Limit: 4})
				code := rules.ReplyRequeue
				if tc.want == 1 {
					code = rules.ReplyExhausted
				}
				if err != nil || got.Limit != tc.want || got.Code != code {
					t.Errorf("fail: %+v, %v, want limit %d, %v", got, err, tc.want, code)
				}
				m.ID += " rejected"
				got, err = c.Fail(t.Context(), attempt(m, "b"), reject)
				if err != nil || got.Limit != 0 || got.Code != rules.ReplyExhausted {
					t.Errorf("a Reject is not the operator's to overrule: %+v, %v", got, err)
				}
				if was, err := c.Admin().ClearLimit(t.Context(), m.VHost, m.Queue); !was || err != nil {
					t.Errorf("clear: %v, %v", was, err)
				}
				if o, err := c.Admin().Limit(t.Context(), m.VHost, m.Queue); o != nil || err != nil {
					t.Errorf("after clear: %+v, %v", o, err)
				}
			}
		})
	}
}

// TestLimitOfAnotherQueue: an override is of one queue in one vhost, and no TTL ends it.
func TestLimitOfAnotherQueue(t *testing.T) {
	for _, c := range servers(t) {
		m := message("1")
		override := c.opts.keys(m).override
		mustDo(t, c.rdb, "HSET", override, "max_retries", "0")
		for _, other := range []Message{{VHost: "eu", Queue: "orders", ID: "1"}, {VHost: "/", Queue: "orders.2", ID: "1"}} {
			if got, err := c.Fail(t.Context(), attempt(other, "a"), again); err != nil || got.Limit != testLimit {
				t.Errorf("%+v: %+v, %v", other, got, err)
			}
		}
		mustFail(t, c, m, "a")
		if ttl := c.rdb.TTL(t.Context(), override).Val(); ttl != -1 {
			t.Errorf("the override expires in %v", ttl)
		}
	}
}
