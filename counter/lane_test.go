package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	gocmp "github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
)

func TestPositionText(t *testing.T) {
	for _, p := range []Position{{Since: 1, Number: 1}, {Since: 946684800013487, Number: 20_000}} {
		if got := rules.ParsePosition(p.String()); got != p {
			t.Errorf("%v is read as %v", p, got)
		}
	}
	for _, text := range []string{"", "1", "1.", ".1", "0.1", "1.0", "-1.1", "1.-1", "1.1.1", "a.b",
		"1.99999999999999999999", " 1.1"} {
		if got := rules.ParsePosition(text); got != (Position{}) {
			t.Errorf("%q is read as %v", text, got)
		}
	}
}

// TestLanePlan covers the plans of a replay of a lane for the dead letters that it finds.
func TestLanePlan(t *testing.T) {
	letter := func(id string, replays int64) LaneDeadLetter {
		return LaneDeadLetter{Message{VHost: "/", Queue: "q", ID: id}, replays}
	}
	state := &LaneState{Since: 5, Last: 9, Open: []int64{2, 3, 4, 6}}
	for id, position := range map[string]int64{"done": 1, "a": 2, "a again": 2, "c": 4, "d": 6, "twice": 1} {
		state.letters = append(state.letters, rules.Place{Number: position, Letter: member(id, ""), ID: id})
	}
	slices.SortFunc(state.letters, func(a, b rules.Place) int {
		return cmp.Or(cmp.Compare(a.Number, b.Number), cmp.Compare(a.Letter, b.Letter))
	})
	at := func(index int, n int64) Planned { return Planned{index, Position{Since: 5, Number: n}} }
	for _, tt := range []struct {
		name  string
		found []LaneDeadLetter
		want  LanePlan
	}{
		{"none", nil, LanePlan{Missing: []int64{2, 4, 6}, Waiting: []int64{3}}},
		{"all, in another order", []LaneDeadLetter{letter("d", 0), letter("c", 0), letter("a", 0)},
			LanePlan{Publish: []Planned{at(2, 2), at(1, 4), at(0, 6)}, Waiting: []int64{3}}},
		{"one is missing", []LaneDeadLetter{letter("a", 0), letter("d", 0)},
			LanePlan{Publish: []Planned{at(0, 2)}, Missing: []int64{4}, Waiting: []int64{3}, Doubles: nil}},
		{"doubles of a position", []LaneDeadLetter{letter("a", 0), letter("a again", 1), letter("c", 0), letter("d", 0)},
			LanePlan{Publish: []Planned{at(1, 2), at(2, 4), at(3, 6)}, Waiting: []int64{3}, Doubles: []Planned{at(0, 2)}}},
		{"a double of one that was handled", []LaneDeadLetter{letter("done", 0), letter("a", 0)},
			LanePlan{Publish: []Planned{at(1, 2)}, Missing: []int64{4, 6}, Waiting: []int64{3}, Doubles: []Planned{at(0, 1)}}},
		{"two messages of one id", []LaneDeadLetter{letter("twice", 0), letter("a", 0), letter("twice", 0), letter("a", 0)},
			LanePlan{Publish: []Planned{at(1, 2)}, Missing: []int64{4, 6}, Waiting: []int64{3}}},
		{"unexpected", []LaneDeadLetter{letter("other", 0)}, LanePlan{Missing: []int64{2, 4, 6}, Waiting: []int64{3}}},
	} {
		if diff := gocmp.Diff(tt.want, planned(state, tt.found)); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

// planned is the plan of a lane, without Found.
func planned(s *LaneState, found []LaneDeadLetter) LanePlan {
	plan := s.Plan(found)
	plan.Found = nil
	return plan
}

// TestLanePlanOfOneID covers lanes in which one id has several positions: its message was published again, or a nack
// was lost and a later session blocked it again, or both. Sessions are letters; an upper-case one blocked a redelivered
// message.
func TestLanePlanOfOneID(t *testing.T) {
	for _, tt := range []struct {
		name     string
		sessions string // that blocked x, from position 1 on; a space: the next session blocked another message
		found    int    // dead letters of x
		publish  []int64
		replaced []int64
		missing  []int64
	}{
		{"published again", "a b", 2, []int64{1, 2, 3}, nil, nil},
		{"published again, and returned", "a B", 2, []int64{1, 2, 3}, nil, nil},
		{"published again in the same session", "aa", 2, []int64{1, 2}, nil, nil},
		{"published again, and not there yet", "aa", 1, []int64{1}, nil, []int64{2}},
		{"the nack was lost", "a B", 1, nil, []int64{1}, nil},
		{"the nack was lost, and a restart of the broker forgot it", "a b", 1, nil, []int64{1}, nil},
		{"lost twice", "aBC", 1, nil, []int64{1, 2}, nil},
		{"both of a session are lost", "aaBB", 2, nil, []int64{1, 2}, nil},
		{"lost, then published again", "a Bc", 2, nil, []int64{1}, nil},
		{"published again, and that one is lost", "aaB", 2, []int64{1}, []int64{2}, nil},
		{"published again by another session, and that one is lost", "a bC", 2, []int64{1, 2}, []int64{3}, nil},
		{"none is there", "aB", 0, nil, []int64{1}, []int64{2}},
		{"both are lost, and one is not there yet", "aaB", 1, nil, []int64{2}, []int64{3}},
	} {
		state := &LaneState{Since: 5, names: map[string][]rules.Place{}}
		var found []LaneDeadLetter
		for i, session := range tt.sessions {
			id, position := "x", int64(i+1)
			if session == ' ' {
				id, session = "other", rune(tt.sessions[i+1])
				found = append(found, LaneDeadLetter{Message: Message{ID: id}})
			}
			name := member(id, "")
			state.Open = append(state.Open, position)
			state.letters = append(state.letters, rules.Place{Number: position, Letter: name, ID: id})
			state.names[name] = append(state.names[name], rules.Place{Number: position,
				Owner: strings.ToLower(string(session)), Again: session < 'a'})
		}
		for range tt.found {
			found = append(found, LaneDeadLetter{Message: Message{ID: "x"}})
		}
		plan := state.Plan(found)
		var publish []int64
		for _, p := range plan.Publish {
			publish = append(publish, p.Position.Number)
		}
		if !slices.Equal(publish, tt.publish) || !slices.Equal(plan.Replaced, tt.replaced) || !slices.Equal(plan.Missing,
			tt.missing) || len(plan.Doubles) > 0 {
			t.Errorf("%s: %+v, want %v published, %v replaced and %v missing", tt.name, plan, tt.publish, tt.replaced,
				tt.missing)
		}
	}
}

// TestLanePlanByOrder: two messages of the id x were blocked in several sessions. Whether a session had blocked another
// message before tells which of the two had left the queue by then.
func TestLanePlanByOrder(t *testing.T) {
	for _, tt := range []struct {
		sessions string // with the message that each blocked, from position 1 on
		found    string
		replaced []int64
	}{
		{"1x 1y 1x 2x 3y 3x 4x", "xyx", []int64{1, 2, 3, 6}},           // the third had the second x only
		{"1x 1x 1y 1z 2x 2y 3x 3y 3z", "xxyz", []int64{2, 3, 4, 5, 6}}, // and so had the second, which lost all
	} {
		state := &LaneState{Since: 5, names: map[string][]rules.Place{}}
		for i, w := range strings.Fields(tt.sessions) {
			n, p := int64(i+1), rules.Place{Number: int64(i + 1), Letter: member(w[1:], ""), Owner: w[:1], Again: w[0] > '1'}
			state.Open, state.letters = append(state.Open, n), append(state.letters, p)
			state.names[p.Letter] = append(state.names[p.Letter], p)
		}
		var found []LaneDeadLetter
		for _, id := range tt.found {
			found = append(found, LaneDeadLetter{Message: Message{ID: string(id)}})
		}
		plan := state.Plan(found)
		slices.Sort(plan.Replaced)
		if !slices.Equal(plan.Replaced, tt.replaced) || len(plan.Missing) > 0 {
			t.Errorf("%s: %+v; want %v replaced", tt.sessions, plan, tt.replaced)
		}
	}
}

// A request that arrives twice blocks its message once, though an operator has replayed the message in between. The
// second position would have no dead letter, and would block the lane until it is dropped.
func TestRepeatedLaneStep(t *testing.T) {
	for _, s := range stores(t) {
		step := rules.LaneStep{Message: Message{VHost: "/", Queue: "repeated", ID: "m"}, Lane: "a",
			Act: rules.LaneBlock, Owner: "o", Number: 1}
		need(t, errOf(s.OwnLanes(t.Context(), "/", step.Queue, "", step.Owner)))
		first, err := s.StepLane(t.Context(), step)
		if err != nil || first.Code != rules.LaneBlocked {
			t.Fatalf("%s: %+v, %v", s.name, first, err)
		}
		need(t, s.NoteReplayed(t.Context(), "/", step.Queue,
			"a", []LaneLetter{{step.Message, first.Position}}))
		if again, err := s.StepLane(t.Context(), step); err != nil || again != first {
			t.Errorf("%s: repeated: %+v, %v; want %+v", s.name, again, err, first)
		}
		state, err := s.Lane(t.Context(), "/", step.Queue, "a")
		if err != nil || len(state.Open) != 1 || len(state.letters) != 0 {
			t.Errorf("%s: %+v, %v; want one position without a dead letter", s.name, state, err)
		}
	}
}

// TestATombstoneOfAPartitionedQueueIsFound: a message was dead-lettered, its nack never arrived, and it waits in a
// blocked lane of its partition. Its tombstone is that of the whole queue.
func TestATombstoneOfAPartitionedQueueIsFound(t *testing.T) {
	for _, s := range stores(t) {
		message := func(id string) Message { return Message{VHost: "/", Queue: "dealt", ID: id} }
		if r, err := s.Fail(t.Context(), attempt(message("died"), "a"), Failure{Limit: 1}); r.Code != rules.ReplyExhausted {
			t.Fatalf("%s: %+v, %v", s.name, r, err)
		}
		need(t, errOf(s.OwnLanes(t.Context(), "/", "dealt.3", "", "o")))
		var got []rules.PlaceKind
		for i, id := range []string{"first", "died", "waits"} {
			step := rules.LaneStep{Message: message(id), Partition: "dealt.3", Lane: "a", Owner: "o", Number: int64(i + 1),
				Act: rules.LaneEnter}
			if i == 0 {
				step.Act = rules.LaneBlock
			}
			need(t, errOf(s.StepLane(t.Context(), step)))
		}
		state, err := s.Lane(t.Context(), "/", "dealt.3", "a")
		need(t, err)
		for _, p := range state.letters {
			got = append(got, p.Kind)
		}
		if want := []rules.PlaceKind{rules.PlaceDied, rules.PlaceDied, rules.PlaceBlocked}; !slices.Equal(got, want) {
			t.Errorf("%s: places %q, want %q", s.name, got, want)
		}
	}
}

// A replay that sees a message blocked again, at a later position than it looked for, leaves its dead letter for the
// next pass.
func TestLanePlanForTaken(t *testing.T) {
	again, behind := Message{VHost: "/", Queue: "q", ID: "again"}, Message{VHost: "/", Queue: "q", ID: "behind"}
	state := &LaneState{Since: 5, Last: 3, Open: []int64{2, 3},
		letters: []rules.Place{{Number: 2, Letter: member("behind", ""), ID: "behind"},
			{Number: 3, Letter: member("again", ""), ID: "again"}}}
	found := []LaneDeadLetter{{Message: again}, {Message: behind}}
	for upTo, want := range []LanePlan{{}, {}, {Publish: []Planned{{1, Position{Since: 5, Number: 2}}}},
		{Publish: []Planned{{1, Position{Since: 5, Number: 2}}, {0, Position{Since: 5, Number: 3}}}}} {
		if diff := gocmp.Diff(want, planned((&LaneState{Since: 5}).ForTaken(int64(upTo), state), found)); diff != "" {
			t.Errorf("up to position %d: %s", upTo, diff)
		}
	}
	first := state.ForTaken(1, state).First()
	if first != (Position{}) || state.First() != (Position{Since: 5, Number: 2}) {
		t.Errorf("first of none is %v, of all %v", first, state.First())
	}
	if forgotten := (&LaneState{Since: 4}).ForTaken(3, state); len(forgotten.Open) > 0 {
		t.Errorf("after the store has lost its memory: %+v", forgotten)
	}
}

func TestLaneName(t *testing.T) {
	kept := strings.Repeat("ä", maxLane/2)
	seen := map[string]string{}
	for _, lane := range []string{"", "7", kept, kept + "a", kept + "b", kept[:len(kept)-1] + "xx",
		strings.Repeat("\x80", 2*maxLane)} {
		got := LaneName(lane)
		if len(got) > maxLane || got != LaneName(lane) || len(lane) <= maxLane && got != lane {
			t.Errorf("a lane of %d bytes has a name of %d bytes, %.60q", len(lane), len(got), got)
		}
		if other, both := seen[got]; both {
			t.Errorf("%.20q and %.20q are one lane", lane, other)
		}
		seen[got] = lane
	}
}

// TestBlocked blocks a message with a tombstone and two behind it, replays one of these, which dies again, and drops
// the lane.
func TestBlocked(t *testing.T) {
	for _, c := range counters(t) {
		testBlocked(t, c)
	}
}

func testBlocked(t *testing.T, c *Counter) {
	t.Helper()
	admin := c.Admin()
	want := func(when string, lanes, count int64) {
		t.Helper()
		for recent, lately := range map[time.Duration]int64{time.Minute: count, 0: 0} {
			all, err := admin.Summaries(t.Context(), "/", []string{"bills", "orders"}, recent)
			if err != nil || all[0].BlockedLanes != 0 || all[1].BlockedLanes != int(lanes) || all[1].Blocked.Count != count ||
				all[1].Blocked.Recent != lately {
				t.Errorf("%s: %+v, %v; want %d behind in %d lanes", when, all, err, count, lanes)
			}
		}
	}
	want("no lanes", 0, 0)
	need(t, errOf(c.OwnLanes(t.Context(), "/", "orders", "", "o")))
	number := int64(0)
	step := func(act rules.LaneAct, id, generation string, position Position) rules.LaneReply {
		t.Helper()
		number++
		r, err := c.StepLane(t.Context(), rules.LaneStep{Message: Message{VHost: "/", Queue: "orders", ID: id,
			Generation: generation}, Lane: "a", Act: act, Owner: "o", Number: number, Position: position})
		need(t, err)
		return r
	}
	die := func(id, generation string) {
		t.Helper()
		a := Attempt{Message: Message{VHost: "/", Queue: "orders", ID: id, Generation: generation}, Token: "t"}
		need(t, errOf(c.Fail(t.Context(), a, Failure{Limit: 1, Reason: "no stock"})))
	}
	first := step(rules.LaneBlock, "1", "", Position{}).Position
	die("1", "")
	want("the first, which has a tombstone", 1, 0)
	second := step(rules.LaneEnter, "2", "", Position{}).Position
	third := step(rules.LaneEnter, "3", "", Position{}).Position
	want("two behind it", 1, 2)
	letter := []LaneLetter{{Message{ID: "2"}, second}}
	need(t, admin.NotePublished(t.Context(), "/", "orders", "a", letter))
	want("one of them is published", 1, 1)
	step(rules.LaneEnter, "2", "g", second)
	want("it is behind again", 1, 2)
	step(rules.LaneBlock, "2", "g", second)
	die("2", "g")
	want("one of them died", 1, 1)
	drop := func(positions ...Position) {
		t.Helper()
		need(t, errOf(admin.DropPositions(t.Context(), "/", "orders", "a", positions)))
	}
	drop(second, third)
	want("two are dropped", 1, 0)
	drop(first)
	want("all are dropped", 0, 0)
	if c.rdb == nil { // a document of another type cannot be
		return
	}
	need(t, c.rdb.Set(t.Context(), c.opts.queueKey("/", "bills")+setLanes, "no set", 0).Err())
	if all, err := admin.Summaries(t.Context(), "/", []string{"bills", "orders"}, 0); err != nil ||
		!errors.Is(all[0].Err, ErrForeign) || all[1].Err != nil {
		t.Errorf("a key of another type: %+v, %v", all, err)
	}
}

// TestNextBlockedForgets: a lane whose document expired before the set of lanes no longer counts as blocked.
func TestNextBlockedForgets(t *testing.T) {
	for _, c := range counters(t) {
		of := Queue{"/", "orders"}
		_, err := c.OwnLanes(t.Context(), of.VHost, of.Name, "", "o")
		for _, lane := range []string{"a", "b"} {
			_, failed := c.StepLane(t.Context(), rules.LaneStep{Message: Message{VHost: of.VHost, Queue: of.Name, ID: lane},
				Lane: lane, Act: rules.LaneBlock, Owner: "o", Number: 1})
			err = errors.Join(err, failed)
		}
		_, failed := c.store.Save(t.Context(), of, Change{Docs: []Doc{{Name: docLane + LaneHash("a"), Any: true}}})
		_, unread := c.NextBlocked(t.Context(), of.VHost, of.Name, BlockedPage{})
		n, uncounted := c.BlockedLanes(t.Context(), of.VHost, of.Name)
		if err = errors.Join(err, failed, unread, uncounted); n != 1 || err != nil {
			t.Errorf("%d lanes are blocked, want 1: %v", n, err)
		}
	}
}

// TestLanes: a list of some lanes has those that are blocked for longest, and says how many there are.
func TestLanes(t *testing.T) {
	for _, c := range counters(t) {
		need(t, errOf(c.OwnLanes(t.Context(), "/", "orders", "", "o")))
		const blocked = page + 10 // more than one round trip reads
		for i := range blocked {
			step := rules.LaneStep{Message: Message{VHost: "/", Queue: "orders", ID: "m"}, Lane: fmt.Sprint(i),
				Act: rules.LaneBlock, Owner: "o", Number: 1}
			need(t, errOf(c.StepLane(t.Context(), step)))
		}
		all, _, err := c.Admin().Lanes(t.Context(), "/", "orders", blocked)
		need(t, err)
		for _, most := range []int{-1, 0, 1, page, blocked - 1, blocked, blocked + 1} {
			got, n, err := c.Admin().Lanes(t.Context(), "/", "orders", most)
			if err != nil || n != blocked || !slices.Equal(got, all[:min(max(most, 0), blocked)]) {
				t.Errorf("%d of %d at most: %d, %v", most, n, len(got), err)
			}
		}
	}
}

// TestLaneBeginsAnew: the document of a blocked lane expires while a store in a database still has the places of the
// lane. The lane that begins then does not find them: no dead letter counts as published.
func TestLaneBeginsAnew(t *testing.T) {
	c := NewMemory(nil).Counter
	of := Queue{"/", "orders"}
	need(t, errOf(c.OwnLanes(t.Context(), of.VHost, of.Name, "", "one")))
	block := func(id string, number int64) {
		t.Helper()
		reply, err := c.StepLane(t.Context(), rules.LaneStep{Message: Message{VHost: of.VHost, Queue: of.Name, ID: id},
			Lane: "a", Act: rules.LaneBlock, Owner: "one", Number: number})
		if err != nil || reply.Code != rules.LaneBlocked {
			t.Fatalf("%s: %+v, %v", id, reply, err)
		}
	}
	var letters []LaneDeadLetter
	for i := range 4 {
		id := fmt.Sprint("old-", i)
		block(id, int64(i+1))
		letters = append(letters, LaneDeadLetter{Message: Message{ID: id}})
	}
	_, docs, err := c.store.Load(t.Context(), of, docLane+hashID("a"))
	need(t, err)
	docs[0].Data, docs[0].Any = "", true
	need(t, errOf(c.store.Save(t.Context(), of, Change{Docs: docs})))

	block("new-0", 5)
	state, err := c.Admin().Lane(t.Context(), of.VHost, of.Name, "a")
	need(t, err)
	letters = append(letters, LaneDeadLetter{Message: Message{ID: "new-0"}})
	plan := state.Plan(letters)
	if len(state.Open) != 1 || state.Messages != 1 || len(plan.Doubles) > 0 || len(plan.Publish) != 1 ||
		letters[plan.Publish[0].Index].ID != "new-0" {
		t.Errorf("the lane has %+v, and the plan %+v; want new-0 published alone, and no double", state, plan)
	}
}

// countedPages is a Store that counts the pages that are read.
type countedPages struct {
	Store
	pages int
}

func (s *countedPages) Page(ctx context.Context, of Queue, set string, after Entry, n int) ([]Entry, error) {
	s.pages++
	return s.Store.Page(ctx, of, set, after, n)
}

// TestLaneReadsFewPages: a message is blocked 32 times, with 200 messages between. Each time its dead letter was
// published again without its headers. A step of it stops at the second open position, and not at the last.
func TestLaneReadsFewPages(t *testing.T) {
	store := &countedPages{Store: newMemoryStore()}
	c, number := Over(store, nil), int64(0)
	need(t, errOf(c.OwnLanes(t.Context(), "/", "orders", "", "o")))
	block := func(id, generation string) rules.LaneReply {
		t.Helper()
		number++
		s := rules.LaneStep{Message: Message{VHost: "/", Queue: "orders", ID: id, Generation: generation},
			Act: rules.LaneEnter, Owner: "o", Number: number}
		if number == 1 {
			s.Act = rules.LaneBlock
		}
		r, err := c.StepLane(t.Context(), s)
		if err != nil || r.Code != rules.LaneBlocked {
			t.Fatalf("%+v, %v", r, err)
		}
		return r
	}
	for i := range 32 {
		block("again", "")
		for j := range 200 {
			block(fmt.Sprint(i, "-", j), "")
		}
	}
	store.pages = 0
	// It may be any of the 32, so it gets a new position.
	if r := block("again", "1@1700000000"); r.Position.Number != 32*201+1 || store.pages > 5 {
		t.Errorf("position %d, %d pages were read, want 5 at most", r.Position.Number, store.pages)
	}
}

// keepingStore notes the members that keep a set.
type keepingStore struct {
	Store
	kept []Member
}

func (s *keepingStore) Save(ctx context.Context, of Queue, c Change) (bool, error) {
	for _, m := range c.Sets {
		if m.Name == "" {
			s.kept = append(s.kept, m)
		}
	}
	return s.Store.Save(ctx, of, c)
}

// TestLaneIsRenewedWhole: a step and a consumer keep all places of a lane as long as its document, with one member.
func TestLaneIsRenewedWhole(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, number := &keepingStore{Store: newMemoryStore()}, int64(0)
		c := Over(s, nil)
		step := func() Position {
			number++
			m := Message{VHost: "/", Queue: "q", ID: fmt.Sprint(number)}
			reply, err := c.StepLane(t.Context(), rules.LaneStep{Message: m, Act: rules.LaneBlock, Owner: "o", Number: number})
			need(t, err)
			return reply.Position
		}
		need(t, errOf(c.OwnLanes(t.Context(), "/", "q", "", "o")))
		set := placesOf(LaneHash(""), step().Since)
		for name, renew := range map[string]func(){
			"step":     func() { step() },
			"consumer": func() { need(t, errOf(c.NextBlocked(t.Context(), "/", "q", BlockedPage{}))) },
		} {
			time.Sleep(48 * time.Hour)
			s.kept = nil
			renew()
			if want := []Member{{Set: set, Expires: laneExpires(time.Now().UTC())}}; !slices.Equal(s.kept, want) {
				t.Errorf("%s: got %+v, want %+v", name, s.kept, want)
			}
		}
	})
}
