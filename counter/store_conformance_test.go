package counter

import (
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/internal/panics"
)

// keeper is a Store under test, with a way to let time pass.
type keeper struct {
	name string
	Store
	pass func(time.Duration)
}

// keepers returns every Store.
func keepers(t *testing.T) []keeper {
	server := miniredis.RunT(t)
	all := []keeper{
		{"memory", newMemoryStore(), time.Sleep},
		{"miniredis", dialTest(t, "redis://"+server.Addr()).store, func(d time.Duration) {
			time.Sleep(d)
			server.FastForward(d)
		}},
	}
	if url := os.Getenv("REDIS_URL"); url != "" {
		all = append(all, keeper{"redis", dialTest(t, url).store, time.Sleep})
	}
	return all
}

var someQueue = Queue{"/", "orders"}

func (k keeper) load(t *testing.T, names ...string) (time.Time, []Doc) {
	t.Helper()
	now, docs, err := k.Load(t.Context(), someQueue, names...)
	if err != nil || len(docs) != len(names) || now.IsZero() {
		t.Fatalf("%s: load %q: %v, %+v, %v", k.name, names, now, docs, err)
	}
	return now, docs
}

func (k keeper) save(t *testing.T, changes ...Change) []bool {
	t.Helper()
	saved, err := k.Save(t.Context(), someQueue, changes...)
	if err != nil || len(saved) != len(changes) {
		t.Fatalf("%s: save: %v, %v", k.name, saved, err)
	}
	return saved
}

// kinds of documents: a record, another string, and one of fields
var kindsOfDocs = map[string][2]string{
	"r:a":     {"one \x00\xff\n", "two"},
	"returns": {"5", "\x00"},
	docPause: {encodeFields(map[string]string{"paused": "1", "why": "a\x00:\xff", "": "", "Z": "1", "a_B": "2",
		"aA": "3"}),
		encodeFields(map[string]string{"b": "c"})},
}

// TestStoreDocuments: a document is written whole, if it is as it was loaded.
func TestStoreDocuments(t *testing.T) {
	for _, k := range keepers(t) {
		for name, data := range kindsOfDocs {
			_, docs := k.load(t, "r:none", name, docLimit)
			for _, d := range docs {
				if d.Data != "" || d.Version != "" || d.Err != nil || !d.Expires.IsZero() {
					t.Errorf("%s: at first: %+v", k.name, d)
				}
			}
			d := docs[1]
			d.Data = data[0]
			want := []bool{true, false} // the second finds what the first wrote
			if got := k.save(t, Change{Docs: []Doc{d}}, Change{Docs: []Doc{d}}); !slices.Equal(got, want) {
				t.Errorf("%s: %s: saved %v, want %v", k.name, name, got, want)
			}
			_, docs = k.load(t, name)
			if docs[0].Data != data[0] || docs[0].Version == "" || !docs[0].Expires.IsZero() {
				t.Errorf("%s: %s: %+v, want %q", k.name, name, docs[0], data[0])
			}
			old := docs[0]
			second := old
			second.Data = data[1]
			k.save(t, Change{Docs: []Doc{second}})
			for what, tc := range map[string]struct {
				change Change
				saved  bool
			}{
				"an old version":             {Change{Docs: []Doc{{Name: name, Version: old.Version, Data: data[0]}}}, false},
				"none, but there is one":     {Change{Docs: []Doc{{Name: name, Data: data[0]}}}, false},
				"beside what changed":        {Change{Docs: []Doc{{Name: "r:beside", Data: "x"}}, Same: []Doc{old}}, false},
				"removal of an old version":  {Change{Docs: []Doc{{Name: name, Version: old.Version}}}, false},
				"a member beside a conflict": {Change{Docs: []Doc{old}, Sets: []Member{{Set: "s", Name: "m"}}}, false},
				"a sum beside a conflict": {Change{Same: []Doc{old}, Add: []Sum{{Doc: docTombstones, Field: "count",
					By: 1}}}, false},
			} {
				if got := k.save(t, tc.change); got[0] != tc.saved {
					t.Errorf("%s: %s: %s: saved %v", k.name, name, what, got)
				}
			}
			_, docs = k.load(t, name, "r:beside", docTombstones)
			if docs[0].Data != data[1] || docs[1].Data != "" || docs[2].Data != "" {
				t.Errorf("%s: %s: after the conflicts: %+v", k.name, name, docs)
			}
			if entries, err := k.Page(t.Context(), someQueue, "s", Entry{}, 9); len(entries) > 0 || err != nil {
				t.Errorf("%s: %s: %v, %v", k.name, name, entries, err)
			}
			beside := Doc{Name: "r:beside", Data: "x"}
			if got := k.save(t, Change{Docs: []Doc{beside}, Same: docs[:1]}); !got[0] {
				t.Errorf("%s: %s: refused beside what stayed", k.name, name)
			}
			anything := Doc{Name: name, Version: "wrong", Data: data[0], Any: true}
			gone := Doc{Name: "r:beside", Any: true}
			if got := k.save(t, Change{Docs: []Doc{anything, gone}}); !got[0] {
				t.Errorf("%s: %s: Any was refused", k.name, name)
			}
			if _, docs = k.load(t, name, "r:beside"); docs[0].Data != data[0] || docs[1].Version != "" {
				t.Errorf("%s: %s: after Any: %+v", k.name, name, docs)
			}
			docs[0].Data = ""
			k.save(t, Change{Docs: docs[:1]})
			if _, docs = k.load(t, name); docs[0] != (Doc{Name: name}) {
				t.Errorf("%s: %s: after its removal: %+v", k.name, name, docs[0])
			}
			_, _, err := k.Load(t.Context(), Queue{"/", "bills"}, name)
			if err != nil {
				t.Error(err)
			}
		}
	}
}

// TestStoreExpiry: a document that expired is one that does not exist; a sum makes its document live longer, and never
// shorter.
func TestStoreExpiry(t *testing.T) {
	for _, k := range keepers(t) {
		began := time.Now()
		now, _ := k.load(t)
		soon, late := now.Truncate(time.Millisecond).Add(3*time.Second), now.Truncate(time.Millisecond).Add(time.Hour)
		var docs []Doc
		for name, data := range kindsOfDocs {
			docs = append(docs, Doc{Name: name, Data: data[0], Expires: soon})
		}
		docs = append(docs, Doc{Name: "r:stays", Data: "x", Expires: late})
		k.save(t, Change{Docs: docs, Add: []Sum{{docTombstones, "count", 3, late}, {docTombstones, "count", -1, soon}}})
		_, kept := k.load(t, "r:a", "r:stays", docTombstones)
		for i, want := range []time.Time{soon, late, late} {
			// A TTL of miniredis stands still.
			if d := want.Sub(kept[i].Expires).Abs(); d > 100*time.Millisecond+time.Since(began) {
				t.Errorf("%s: %s expires at %v, want %v", k.name, kept[i].Name, kept[i].Expires, want)
			}
		}
		k.pass(3100*time.Millisecond + time.Since(began))
		for name, data := range kindsOfDocs {
			if _, d := k.load(t, name); d[0] != (Doc{Name: name}) {
				t.Errorf("%s: %s did not expire: %+v", k.name, name, d[0])
			}
			if got := k.save(t, Change{Docs: []Doc{{Name: name, Data: data[1]}}}); !got[0] {
				t.Errorf("%s: %s is taken for one that exists", k.name, name)
			}
		}
		if _, kept = k.load(t, "r:stays", docTombstones); kept[0].Data != "x" ||
			decodeFields(kept[1].Data)["count"] != "2" {
			t.Errorf("%s: %+v", k.name, kept)
		}
	}
}

// TestStoreSets: the pages of a set have each member once, in its order, whatever the size.
func TestStoreSets(t *testing.T) {
	for _, k := range keepers(t) {
		var want []Entry
		change := Change{Sets: []Member{{Set: "other", Name: "x", Score: 7}}}
		for i := range 60 {
			e := Entry{fmt.Sprintf("m%02d", i), int64(i / 20)} // many of one score
			want = append(want, e)
			change.Sets = append(change.Sets, Member{Set: "s", Name: e.Name, Score: e.Score - 5})
		}
		k.save(t, change)
		for i, m := range change.Sets[1:] { // each moves
			change.Sets[i+1].Score = m.Score + 5
		}
		change.Sets = append(change.Sets, Member{Set: "s", Name: "m30", Gone: true},
			Member{Set: "s", Name: "none", Gone: true})
		k.save(t, change)
		want = slices.Delete(want, 30, 31)
		slices.Reverse(want)
		for size := range 70 {
			var got []Entry
			for after := (Entry{}); size > 0; {
				part, err := k.Page(t.Context(), someQueue, "s", after, size)
				if err != nil {
					t.Fatal(err)
				}
				got = append(got, part...)
				if len(part) < size {
					break
				}
				after = part[len(part)-1]
			}
			if diff := cmp.Diff(want, got); size > 0 && diff != "" {
				t.Fatalf("%s: pages of %d: -want +got:\n%s", k.name, size, diff)
			}
		}
		for from, want := range map[int64]int{-1: 59, 0: 59, 1: 39, 2: 20, 3: 0} {
			if n, err := k.Count(t.Context(), someQueue, "s", from); n != want || err != nil {
				t.Errorf("%s: %d from %d on, %v, want %d", k.name, n, from, err, want)
			}
		}
		if n, err := k.Count(t.Context(), Queue{"/", "bills"}, "s", 0); n != 0 || err != nil {
			t.Errorf("%s: of another queue: %d, %v", k.name, n, err)
		}
	}
}

// TestStoreEndsWithItsContext: nothing is done then.
func TestStoreEndsWithItsContext(t *testing.T) {
	for _, k := range keepers(t) {
		ctx, cancel := context.WithCancel(t.Context())
		cancel()
		_, _, err := k.Load(ctx, someQueue, "r:a")
		_, errSave := k.Save(ctx, someQueue, Change{Docs: []Doc{{Name: "r:a", Data: "x"}}})
		_, errPage := k.Page(ctx, someQueue, "s", Entry{}, 1)
		_, errCount := k.Count(ctx, someQueue, "s", 1)
		for i, err := range []error{err, errSave, errPage, errCount} {
			if !errors.Is(err, context.Canceled) {
				t.Errorf("%s: %d: %v", k.name, i, err)
			}
		}
		if _, docs := k.load(t, "r:a"); docs[0].Data != "" {
			t.Errorf("%s: it was saved", k.name)
		}
	}
}

// byRules is a Counter on the same store which takes every step through Load and Save.
func byRules(c *Counter) *Counter {
	return &Counter{&client{opts: c.opts, store: c.store}}
}

// TestStoreRace: two clients count 800 failures of 5 messages, each once. Scripts and rules change the same records.
func TestStoreRace(t *testing.T) {
	type pair struct{ one, two *Counter }
	pairs := map[string]pair{"memory": {NewMemory(nil).Counter, nil}}
	for _, s := range stores(t) {
		if on, ok := s.steps.(onRedis); ok {
			pairs[s.name+", scripts"] = pair{on.Counter, New(on.rdb, &on.opts)}
			pairs[s.name+", rules"] = pair{byRules(on.Counter), byRules(on.Counter)}
			pairs[s.name+", both"] = pair{on.Counter, byRules(on.Counter)}
		}
	}
	for name, of := range pairs {
		if of.two == nil {
			of.two = of.one
		}
		var sending panics.Group
		sending.SetLimit(16)
		var mu sync.Mutex
		queue, exhausted := name, 0
		for i := range 800 {
			by := []*Counter{of.one, of.two}[i%2]
			m := Message{VHost: "/", Queue: queue, ID: fmt.Sprint(i % 5)}
			sending.Go(func() error {
				f := Failure{Limit: 160, Reason: "boom"}
				reply, err := by.Fail(t.Context(), attempt(m, fmt.Sprint("t", i)), f)
				mu.Lock()
				defer mu.Unlock()
				exhausted += flag(reply.Code == ReplyExhausted)
				return err
			})
		}
		if err := sending.Wait(); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		counted := 0
		for i := range 5 {
			records, err := of.one.Admin().Get(t.Context(), "/", queue, fmt.Sprint(i))
			if err != nil || len(records) != 1 {
				t.Fatalf("%s: %d: %+v, %v", name, i, records, err)
			}
			counted += records[0].Failures
		}
		dead, err := of.one.Admin().Tombstones(t.Context(), "/", queue)
		if counted != 800 || exhausted != 5 || dead.Count != 5 || dead.Expired != 0 || err != nil {
			t.Errorf("%s: %d failures are counted, %d replies are EXHAUSTED, %+v, %v", name, counted, exhausted, dead, err)
		}
	}
}
