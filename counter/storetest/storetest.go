// Package storetest tests whether a counter.Store keeps its promises. The author of a Store calls Run from a test.
package storetest

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/panics"
)

// Run tests the Store that open returns. Each part of the test opens one, which is empty, and open closes it when the
// part ends. Clocks of the store and of this process must not differ by more than a second.
func Run(t *testing.T, open func(testing.TB) counter.Store) {
	for name, test := range map[string]func(*testing.T, keeper){
		"documents": testDocuments, "absent documents": testAbsent, "expiry": testExpiry, "sets": testSets,
		"context": testEndsWithItsContext, "names": testNames, "records": testRead, "race": testRace, "sums": testSums,
	} {
		t.Run(name, func(t *testing.T) { test(t, keeper{open(t)}) })
	}
}

// keeper is the Store under test.
type keeper struct{ counter.Store }

// encode writes a document of fields, as counter.AddTo reads it.
func encode(fields map[string]string) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(fields)) {
		fmt.Fprintf(&b, "%d:%s%d:%s", len(name), name, len(fields[name]), fields[name])
	}
	return b.String()
}

var someQueue = counter.Queue{VHost: "/", Name: "orders"}

func (k keeper) load(t *testing.T, names ...string) (time.Time, []counter.Doc) {
	t.Helper()
	now, docs, err := k.Load(t.Context(), someQueue, names...)
	if err != nil || len(docs) != len(names) || now.IsZero() {
		t.Fatalf("load %q: %v, %+v, %v", names, now, docs, err)
	}
	return now, docs
}

func (k keeper) save(t *testing.T, change counter.Change) bool {
	t.Helper()
	saved, err := k.Save(t.Context(), someQueue, change)
	if err != nil {
		t.Fatalf("save: %v", err)
	}
	return saved
}

// kinds of documents: a record, another string, and one of fields
var kindsOfDocs = map[string][2]string{
	"r:a":     {"one \x00\xff\n", "two"},
	"returns": {"5", "\x00"},
	"pause": {encode(map[string]string{"paused": "1", "why": "a\x00:\xff", "": "", "Z": "1", "a_B": "2",
		"aA": "3"}),
		encode(map[string]string{"b": "c"})},
}

// testDocuments: a document is written whole, if it is as it was loaded.
func testDocuments(t *testing.T, k keeper) {
	for name, data := range kindsOfDocs {
		_, docs := k.load(t, "r:none", name, "limit")
		for _, d := range docs {
			if d.Data != "" || d.Version != "" || d.Err != nil || !d.Expires.IsZero() {
				t.Errorf("at first: %+v", d)
			}
		}
		d := docs[1]
		d.Data = data[0]
		if !k.save(t, counter.Change{Docs: []counter.Doc{d, {Name: "r:third", Any: true}}}) {
			t.Errorf("%s: it was not saved", name)
		}
		_, docs = k.load(t, name)
		if docs[0].Data != data[0] || docs[0].Version == "" || !docs[0].Expires.IsZero() {
			t.Errorf("%s: %+v, want %q", name, docs[0], data[0])
		}
		old := docs[0]
		second := counter.Change{Docs: []counter.Doc{old}}
		second.Docs[0].Data = data[1]
		k.save(t, second)
		if _, docs = k.load(t, name); second.Docs[0].Version != docs[0].Version || docs[0].Version == old.Version {
			t.Errorf("%s: Save says that it wrote version %q, want %q", name, second.Docs[0].Version, docs[0].Version)
		}
		for what, change := range map[string]counter.Change{
			"an old version":            {Docs: []counter.Doc{{Name: name, Version: old.Version, Data: data[0]}}},
			"none, but there is one":    {Docs: []counter.Doc{{Name: name, Data: data[0]}}},
			"beside a changed document": {Docs: []counter.Doc{{Name: "r:beside", Data: "x"}}, Same: []counter.Doc{old}},
			"removal of an old version": {Docs: []counter.Doc{{Name: name, Version: old.Version}}},
			"a member beside a conflict": {Docs: []counter.Doc{old},
				Sets: []counter.Member{{Set: "s", Name: "m"}}},
			"a sum beside a conflict": {Same: []counter.Doc{old},
				Add: []counter.Sum{{Doc: "tombstones", Field: "count", By: 1}}},
		} {
			if k.save(t, change) {
				t.Errorf("%s: %s: it was saved", name, what)
			}
		}
		_, docs = k.load(t, name, "r:beside", "tombstones")
		if docs[0].Data != data[1] || docs[1].Data != "" || docs[2].Data != "" {
			t.Errorf("%s: after the conflicts: %+v", name, docs)
		}
		if entries, err := k.Page(t.Context(), someQueue, "s", counter.Entry{}, 9); len(entries) > 0 || err != nil {
			t.Errorf("%s: %v, %v", name, entries, err)
		}
		beside := counter.Doc{Name: "r:beside", Data: "x"}
		if !k.save(t, counter.Change{Docs: []counter.Doc{beside}, Same: docs[:1]}) {
			t.Errorf("%s: refused beside what stayed", name)
		}
		anything := counter.Doc{Name: name, Version: "wrong", Data: data[0], Any: true}
		gone := counter.Doc{Name: "r:beside", Any: true}
		if !k.save(t, counter.Change{Docs: []counter.Doc{anything, gone}}) {
			t.Errorf("%s: Any was refused", name)
		}
		if _, docs = k.load(t, name, "r:beside"); docs[0].Data != data[0] || docs[1].Version != "" {
			t.Errorf("%s: after Any: %+v", name, docs)
		}
		docs[0].Data = ""
		k.save(t, counter.Change{Docs: docs[:1]})
		if _, docs = k.load(t, name); docs[0] != (counter.Doc{Name: name}) {
			t.Errorf("%s: after its removal: %+v", name, docs[0])
		}
		_, _, err := k.Load(t.Context(), counter.Queue{VHost: "/", Name: "bills"}, name)
		if err != nil {
			t.Error(err)
		}
	}
}

// testExpiry: a document that expired is one that does not exist; a sum makes its document live longer, and never
// shorter.
func testExpiry(t *testing.T, k keeper) {
	began := time.Now()
	now, _ := k.load(t)
	soon, late := now.Truncate(time.Millisecond).Add(3*time.Second), now.Truncate(time.Millisecond).Add(time.Hour)
	var docs []counter.Doc
	for name, data := range kindsOfDocs {
		docs = append(docs, counter.Doc{Name: name, Data: data[0], Expires: soon})
	}
	docs = append(docs, counter.Doc{Name: "r:stays", Data: "x", Expires: late})
	k.save(t, counter.Change{Docs: docs, Add: []counter.Sum{{Doc: "tombstones", Field: "count", By: 3, Expires: late},
		{Doc: "tombstones", Field: "count", By: -1, Expires: soon}}})
	k.save(t, counter.Change{Sets: []counter.Member{{Set: "s", Name: "m", Expires: soon}}})
	k.save(t, counter.Change{Sets: []counter.Member{{Set: "s", Expires: late}}}) // keeps its members
	_, kept := k.load(t, "r:a", "r:stays", "tombstones")
	most := time.Since(began) + 100*time.Millisecond // a store may send how long a document lives
	for i, want := range []time.Time{soon, late, late} {
		if d := want.Sub(kept[i].Expires).Abs(); d > most {
			t.Errorf("%s expires at %v, want %v", kept[i].Name, kept[i].Expires, want)
		}
	}
	for ; !now.After(soon.Add(200 * time.Millisecond)); now, _ = k.load(t) {
		time.Sleep(50 * time.Millisecond) //nolint:forbidigo // by the clock of the store
	}
	for name, data := range kindsOfDocs {
		if _, d := k.load(t, name); d[0] != (counter.Doc{Name: name}) {
			t.Errorf("%s did not expire: %+v", name, d[0])
		}
		if !k.save(t, counter.Change{Docs: []counter.Doc{{Name: name, Data: data[1]}}}) {
			t.Errorf("%s is taken for one that exists", name)
		}
	}
	k.save(t, counter.Change{Docs: []counter.Doc{{Name: counter.Entry{Name: "m"}.Record(), Data: "x", Expires: soon}}})
	if got, err := k.Read(t.Context(), someQueue, "s", []counter.Entry{{Name: "m"}}); err != nil || got[0] != "" {
		t.Errorf("Read returns a record that has expired: %q, %v", got, err)
	}
	if n, err := k.Count(t.Context(), someQueue, "s", 0); n != 1 || err != nil {
		t.Errorf("a set that was to be kept has %d members, %v", n, err)
	}
	if _, kept = k.load(t, "r:stays", "tombstones"); kept[0].Data != "x" ||
		kept[1].Data != counter.AddTo("", counter.Sum{Field: "count", By: 2}) {
		t.Errorf("%+v", kept)
	}
}

// testSets: the pages of a set have each member once, in its order, whatever the size.
func testSets(t *testing.T, k keeper) {
	var want []counter.Entry
	change := counter.Change{Sets: []counter.Member{{Set: "other", Name: "x", Score: 7}}}
	for i := range 60 {
		e := counter.Entry{Name: fmt.Sprintf("m%02d", i), Score: int64(i / 20)} // many of one score
		want = append(want, e)
		change.Sets = append(change.Sets, counter.Member{Set: "s", Name: e.Name, Score: e.Score - 5})
	}
	k.save(t, change)
	for i, m := range change.Sets[1:] { // each moves
		change.Sets[i+1].Score = m.Score + 5
	}
	change.Sets[31].Gone = true // m30
	change.Sets = append(change.Sets, counter.Member{Set: "s", Name: "none", Gone: true},
		counter.Member{Set: "s", Expires: time.Now().Add(time.Hour)})
	k.save(t, change)
	want = slices.Delete(want, 30, 31)
	slices.Reverse(want)
	for size := range 70 {
		var got []counter.Entry
		for after := (counter.Entry{}); size > 0; {
			part, err := k.Page(t.Context(), someQueue, "s", after, size)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, part...)
			if len(part) > size {
				t.Fatalf("a page of %d has %d members", size, len(part))
			}
			if len(part) < size {
				break
			}
			after = part[len(part)-1]
		}
		if size > 0 && !slices.Equal(want, got) {
			t.Fatalf("pages of %d: got %v, want %v", size, got, want)
		}
	}
	for from, want := range map[int64]int{-1: 59, 0: 59, 1: 39, 2: 20, 3: 0} {
		if n, err := k.Count(t.Context(), someQueue, "s", from); n != want || err != nil {
			t.Errorf("%d from %d on, %v, want %d", n, from, err, want)
		}
	}
	for _, of := range []counter.Queue{{VHost: "/", Name: "bills"}, {VHost: "test", Name: "orders"}} {
		if n, err := k.Count(t.Context(), of, "s", 0); n != 0 || err != nil {
			t.Errorf("of another queue, %+v: %d, %v", of, n, err)
		}
	}
}

// testNames: names are bytes, also those that a text would take for one, and pages have them in the order of their
// bytes.
func testNames(t *testing.T, k keeper) {
	every := make([]byte, 255)
	for i := range every {
		every[i] = byte(i)
	}
	of := counter.Queue{VHost: string(every), Name: strings.Repeat("\xff", 255)}
	names := []string{string(every), "\xff", "\xe4", "\xc3\xa4", "a\x00\x00", "a\x00", "a ", "a", "\\", "A", "'", "%", " ",
		"\x00"}
	var change counter.Change
	for _, name := range names {
		change.Docs = append(change.Docs, counter.Doc{Name: "r:" + name, Data: "of " + name + "'\\"})
		change.Sets = append(change.Sets, counter.Member{Set: "dead", Name: name, Score: 7})
	}
	saved, err := k.Save(t.Context(), of, change)
	if err != nil || !saved {
		t.Fatalf("saved %v, %v", saved, err)
	}
	for _, name := range names {
		_, docs, err := k.Load(t.Context(), of, "r:"+name)
		if err != nil || docs[0].Data != "of "+name+"'\\" {
			t.Errorf("%q: %+v, %v", name, docs, err)
		}
	}
	slices.Sort(names)
	slices.Reverse(names)
	var got []string
	for after, n := (counter.Entry{}), 4; n == 4; {
		page, err := k.Page(t.Context(), of, "dead", after, 4)
		if err != nil {
			t.Fatal(err)
		}
		for _, after = range page {
			got = append(got, after.Name)
		}
		n = len(page)
	}
	if !slices.Equal(got, names) {
		t.Errorf("got %q, want %q", got, names)
	}
}

// testRead: the records of a page come in its order, also those of members that have moved or left the set since.
func testRead(t *testing.T, k keeper) {
	var page []counter.Entry
	var want []string
	var change counter.Change
	for i := range 1200 {
		e := counter.Entry{Name: fmt.Sprintf("m%04d", i), Score: int64(i / 500)}
		change.Sets = append(change.Sets, counter.Member{Set: "s", Name: e.Name, Score: e.Score})
		page, want = append(page, e), append(want, "")
		if i%7 > 0 {
			want[i] = fmt.Sprint("the record\x00 of ", i)
			change.Docs = append(change.Docs, counter.Doc{Name: e.Record(), Data: want[i]})
		}
	}
	for d := range slices.Chunk(change.Docs, 100) {
		k.save(t, counter.Change{Docs: d})
	}
	k.save(t, counter.Change{Sets: change.Sets})
	k.save(t, counter.Change{Sets: []counter.Member{{Set: "s", Name: "m0601", Score: 9},
		{Set: "s", Name: "m0050", Gone: true}, {Set: "s", Name: "new", Score: 10}}})
	slices.Reverse(page)
	slices.Reverse(want)
	for _, part := range [][2]int{{0, 1200}, {0, 1}, {300, 900}, {1199, 1200}} {
		got, err := k.Read(t.Context(), someQueue, "s", page[part[0]:part[1]])
		if err != nil || !slices.Equal(got, want[part[0]:part[1]]) {
			t.Errorf("entries %v: %d records, %v; want those of the %d entries", part, len(got), err, part[1]-part[0])
		}
	}
}

// testEndsWithItsContext: nothing is done then.
func testEndsWithItsContext(t *testing.T, k keeper) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, _, err := k.Load(ctx, someQueue, "r:a")
	_, errSave := k.Save(ctx, someQueue, counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "x"}}})
	_, errPage := k.Page(ctx, someQueue, "s", counter.Entry{}, 1)
	_, errCount := k.Count(ctx, someQueue, "s", 1)
	_, errRead := k.Read(ctx, someQueue, "s", []counter.Entry{{Name: "a"}})
	for method, err := range map[string]error{"Load": err, "Save": errSave, "Page": errPage, "Count": errCount,
		"Read": errRead} {
		if !errors.Is(err, context.Canceled) {
			t.Errorf("%s: %v", method, err)
		}
	}
	if _, docs := k.load(t, "r:a"); docs[0].Data != "" {
		t.Errorf("it was saved")
	}
}

// testAbsent: of two changes that each write a document if another does not exist, one is made.
func testAbsent(t *testing.T, k keeper) {
	for i := range 50 {
		names := []string{fmt.Sprint("one:", i), fmt.Sprint("two:", i)}
		var saving panics.Group
		var made atomic.Int64
		for side := range 2 {
			saving.Go(func() error {
				saved, err := k.Save(t.Context(), someQueue, counter.Change{Docs: []counter.Doc{{Name: names[side], Data: "x"}},
					Same: []counter.Doc{{Name: names[1-side]}}})
				if err == nil && saved {
					made.Add(1)
				}
				return err
			})
		}
		if err := saving.Wait(); err != nil || made.Load() != 1 {
			t.Fatalf("%d: %d were made, want 1, %v", i, made.Load(), err)
		}
	}
}

// testSums: changes that only add never conflict, and each counts.
func testSums(t *testing.T, k keeper) {
	var saving panics.Group
	saving.SetLimit(8)
	for i := range 200 {
		saving.Go(func() error {
			c := counter.Change{Docs: []counter.Doc{{Name: fmt.Sprint("r:", i), Data: "x"}},
				Add: []counter.Sum{{Doc: "tombstones", Field: "count", By: 1},
					{Doc: "tombstones", Field: "removed", By: int64(i % 2)}}}
			if saved, err := k.Save(t.Context(), someQueue, c); err != nil || !saved {
				return fmt.Errorf("%d: %v, %w", i, saved, err)
			}
			return nil
		})
	}
	if err := saving.Wait(); err != nil {
		t.Fatal(err)
	}
	_, docs := k.load(t, "tombstones")
	if want := encode(map[string]string{"count": "200", "removed": "100"}); docs[0].Data != want {
		t.Errorf("got %q, want %q", docs[0].Data, want)
	}
}

// testRace: two Counters count 800 failures of 5 messages, each once.
func testRace(t *testing.T, k keeper) {
	pair := []*counter.Counter{counter.Over(unclosed{k}, nil), counter.Over(unclosed{k}, nil)}
	var sending panics.Group
	sending.SetLimit(16)
	var exhausted atomic.Int64
	for i := range 800 {
		sending.Go(func() error {
			a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "orders", ID: fmt.Sprint(i % 5)},
				Token: fmt.Sprint("t", i), Consumer: "c", Received: time.Now()}
			reply, err := pair[i%2].Fail(t.Context(), a, counter.Failure{Limit: 160, Reason: "boom"})
			if err == nil && reply.Code == rules.ReplyExhausted {
				exhausted.Add(1)
			}
			return err
		})
	}
	if err := sending.Wait(); err != nil {
		t.Fatal(err)
	}
	counted := 0
	for i := range 5 {
		records, err := pair[0].Admin().Get(t.Context(), "/", "orders", fmt.Sprint(i))
		if err != nil || len(records) != 1 {
			t.Fatalf("%d: %+v, %v", i, records, err)
		}
		counted += records[0].Failures
	}
	state, err := pair[0].Admin().State(t.Context(), "/", "orders")
	dead := state.Tombstones
	if counted != 800 || exhausted.Load() != 5 || dead.Count != 5 || dead.Expired != 0 || err != nil {
		t.Errorf("%d failures are counted, %d replies are EXHAUSTED, %+v, %v", counted, exhausted.Load(), dead, err)
	}
	for _, c := range pair {
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}

// unclosed is a Store that stays open for others.
type unclosed struct{ counter.Store }

func (unclosed) Close() error { return nil }
