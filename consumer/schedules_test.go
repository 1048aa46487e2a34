package consumer

import (
	"bufio"
	"encoding/json"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"os"
	"reflect"
	"runtime"
	"slices"
	"sync"
	"testing"
	"time"
)

var (
	schedules     = flag.Int("schedules", 20, "how many schedules TestSchedules draws; make client-python: 300")
	schedulesSeed = flag.Uint64("schedules.seed", 1, "the seed of the first of them")
	schedulesOut  = flag.String("schedules.out", "", "the file for them, a case of conduct.json on each line")
)

const (
	// unsteadyRuns is in how many runs with other times, and in how many with slower replies, a case has to come out the
	// same.
	unsteadyRuns   = 4
	mostDeliveries = 8
	mostShift      = 20 // ms by which they move each time
	mostNoise      = 500 * time.Microsecond
	timeSlack      = 100 // ms by which a client's time may differ
)

// TestSchedules draws schedules, plays each on a session, and writes the trace. The clients compare their own traces
// with it: make client-schedules. A case whose result hangs on a few ms or on chance is dropped: the protocol does not
// decide it.
func TestSchedules(t *testing.T) {
	withoutChance(t)
	var drawn []conductCase
	dropped := 0
	for seed := *schedulesSeed; len(drawn) < *schedules; seed++ {
		tc, ok := playSchedule(t, seed)
		if !ok {
			dropped++
			continue
		}
		drawn = append(drawn, tc)
	}
	if dropped > len(drawn)/2 {
		t.Errorf("%d schedules, and %d others were dropped", len(drawn), dropped)
	}
	if len(drawn) >= 1000 || len(drawn) >= 100 && *schedulesSeed == 1 { // fewer may lack something by chance
		checkVariety(t, drawn)
	}
	if *schedulesOut != "" {
		writeSchedules(t, *schedulesOut, drawn)
		fmt.Printf("consumer: %d schedules from seed %d, dropped %d others that hang on a few ms or on chance\n", len(drawn),
			*schedulesSeed, dropped)
	}
}

// checkVariety reports the kinds of entries that no schedule has.
func checkVariety(t *testing.T, drawn []conductCase) {
	t.Helper()
	had := map[string]bool{}
	for _, tc := range drawn {
		for _, e := range tc.Trace {
			for _, part := range []string{e.Do, e.Do + " " + e.Mode, e.Do + " " + e.Cause,
				fmt.Sprintf("%s %t", e.Do, e.Succeeded), fmt.Sprintf("%s repeated %t", e.Do, e.Repeated)} {
				had[part] = true
			}
		}
	}
	for _, part := range []string{
		"START shared", "START isolated", "START beside-abandoned", "START untracked", "START repeated true", "FAIL failed",
		"FAIL timed-out", "FAIL rejected",
		"FAIL repeated true", "BEGUN", "BEGUN repeated true", "END true", "END false", "END repeated true", "handler", "ack",
		"requeue", "dead-letter", "close", "stop", "lose", "cancel", "skip", "fetch", "FAIL not-counted",
	} {
		if !had[part] {
			t.Errorf("no schedule has %s", part)
		}
	}
}

// withoutChance takes chance out of the code under test: no pause is shortened. The clients' runners do the same.
func withoutChance(t *testing.T) {
	t.Helper()
	saved := draw
	draw = func(time.Duration) time.Duration { return 0 }
	procs := runtime.GOMAXPROCS(1)
	t.Cleanup(func() { draw = saved; runtime.GOMAXPROCS(procs) })
}

// playSchedule draws the case of a seed, with the trace of a session. It reports false if the case has no certain
// result.
func playSchedule(t *testing.T, seed uint64) (conductCase, bool) {
	t.Helper()
	rng := rand.New(rand.NewPCG(seed, 0))
	tc := newSchedule(fmt.Sprintf("schedule %d", seed), rng)
	replies := scheduleReplies{seed: seed, limit: *tc.Settings.MaxRetries + 1}
	requeued := int64(-1)
	for tc.Trace = record(t, &tc, replies); redeliver(&tc, rng, &requeued); {
		tc.Trace = record(t, &tc, replies)
	}
	if dropEmpty(tc.Replies); tc.Trace == nil {
		tc.Trace = []conductEntry{}
	}
	runs := unsteadyRuns
	if tc.Settings.Breaker > 0 { // a permit, and the closing, let several deliveries go at once
		runs *= 3
	}
	for i := range runs {
		of := &dice{rng: rand.New(rand.NewPCG(seed, uint64(i+1))), observed: i%2 == 0}
		if !sameCourse(tc.Trace, playShifted(t, tc, of, replies)) || !sameTimes(tc.Trace, playNoisy(t, tc, of)) {
			return tc, false
		}
	}
	if !sameTimes(tc.Trace, runConduct(t, decoded(t, tc))) {
		return tc, false
	}
	for i := range tc.Trace {
		at := tc.Trace[i].at
		tc.Trace[i].From, tc.Trace[i].To = new(max(0, at-timeSlack)), new(at+timeSlack)
	}
	return tc, true
}

// record plays a case, and adds the replies that it asked for.
func record(t *testing.T, tc *conductCase, replies scheduleReplies) []conductEntry {
	t.Helper()
	tc.Replies = map[string]map[string][]json.RawMessage{}
	for id := range tc.Handlers {
		tc.Replies[id] = map[string][]json.RawMessage{}
	}
	return (&conductRun{of: *tc, draw: replies.draw}).play(t)
}

// redeliver adds a delivery for a message that was requeued after that time, and reports whether there was one.
// Earlier events stay the same, so no message is delivered twice at a time.
func redeliver(tc *conductCase, rng *rand.Rand, after *int64) bool {
	for _, e := range tc.Trace {
		if e.Do != "requeue" || e.at <= *after || len(tc.Deliveries) == mostDeliveries {
			continue
		}
		*after = e.at
		if rng.IntN(3) == 0 {
			continue
		}
		i := slices.IndexFunc(tc.Deliveries, func(d conductDelivery) bool { return d.ID == e.ID })
		again := tc.Deliveries[i]
		again.Redelivered, again.Beyond, again.At = true, false, e.at+1+rng.Int64N(800)
		tc.Deliveries = append(tc.Deliveries, again)
		return true
	}
	return false
}

func dropEmpty(replies map[string]map[string][]json.RawMessage) {
	for id, steps := range replies {
		if len(steps) == 0 {
			delete(replies, id)
		}
	}
}

// dice are for many goroutines.
type dice struct {
	observed bool // the observer takes a moment too
	mu       sync.Mutex
	rng      *rand.Rand
}

func (d *dice) roll(below int64) int64 {
	d.mu.Lock()
	defer d.mu.Unlock()
	return d.rng.Int64N(below)
}

func (d *dice) noise() time.Duration { return time.Duration(d.roll(int64(mostNoise))) }

// playShifted plays a case with each time a little different, and with random pauses between repetitions.
func playShifted(t *testing.T, tc conductCase, of *dice, replies scheduleReplies) []conductEntry {
	t.Helper()
	if of.roll(2) == 0 {
		saved := draw
		defer func() { draw = saved }()
		draw = func(most time.Duration) time.Duration { return time.Duration(of.roll(int64(most) + 1)) }
	}
	shift := func(ms int64) int64 { return max(0, ms+of.roll(2*mostShift+1)-mostShift) }
	tc.Replies = maps.Clone(tc.Replies)
	for id, steps := range tc.Replies {
		tc.Replies[id] = maps.Clone(steps)
	}
	for id := range tc.Handlers {
		if tc.Replies[id] == nil {
			tc.Replies[id] = map[string][]json.RawMessage{}
		}
	}
	return (&conductRun{of: shifted(tc, shift), draw: replies.draw, shift: shift, noise: of.noise,
		observed: of.observed}).play(t)
}

// playNoisy plays a case with replies that take a moment. Then another delivery may come first where several could.
func playNoisy(t *testing.T, tc conductCase, of *dice) []conductEntry {
	t.Helper()
	return (&conductRun{of: tc, noise: of.noise, observed: of.observed}).play(t)
}

func shifted(tc conductCase, shift func(int64) int64) conductCase {
	tc.Until = shift(tc.Until)
	tc.Deliveries, tc.Outages, tc.Events = slices.Clone(tc.Deliveries), slices.Clone(tc.Outages), slices.Clone(tc.Events)
	for i := range tc.Deliveries {
		tc.Deliveries[i].At = shift(tc.Deliveries[i].At)
	}
	for i := range tc.Outages {
		tc.Outages[i].From, tc.Outages[i].To = shift(tc.Outages[i].From), shift(tc.Outages[i].To)
	}
	for i := range tc.Events {
		tc.Events[i].At = shift(tc.Events[i].At)
	}
	handlers := map[string][]conductHandler{}
	for _, id := range slices.Sorted(maps.Keys(tc.Handlers)) {
		for _, h := range tc.Handlers[id] {
			h.Takes = shift(h.Takes)
			handlers[id] = append(handlers[id], h)
		}
	}
	tc.Handlers = handlers
	return tc
}

// sameCourse reports whether each message had the same course, whenever that was.
func sameCourse(want, got []conductEntry) bool {
	timeless := func(trace []conductEntry) map[string][]conductEntry {
		of := byMessage(trace)
		for _, entries := range of {
			for i := range entries {
				entries[i].at, entries[i].answered, entries[i].From, entries[i].To = 0, false, nil, nil
				if p := entries[i].Progress; p != nil { // which times it has is certain, and sameTimes compares them
					entries[i].Progress = &conductProgress{Breaker: p.Breaker, Patience: p.Patience, Failing: p.Failing}
				}
			}
		}
		return of
	}
	return reflect.DeepEqual(timeless(want), timeless(got))
}

// sameTimes reports whether each message had the same course at the same time.
func sameTimes(want, got []conductEntry) bool {
	if !sameCourse(want, got) {
		return false
	}
	times := byMessage(got)
	for id, entries := range byMessage(want) {
		for i, e := range entries {
			if !near(&e.at, &times[id][i].at) {
				return false
			}
			if p, q := e.Progress, times[id][i].Progress; p != nil && !(near(p.Began, q.Began) && near(p.Ended, q.Ended) &&
				near(p.Attempt, q.Attempt)) {
				return false
			}
		}
	}
	return true
}

// near reports whether two times are about the same; nil: there is none.
func near(a, b *int64) bool {
	return a == nil && b == nil || a != nil && b != nil && max(*a-*b, *b-*a) <= timeSlack/2
}

// decoded is a case as a client reads it.
func decoded(t *testing.T, tc conductCase) (out conductCase) {
	t.Helper()
	need(t, json.Unmarshal(encoded(tc), &out))
	return out
}

func writeSchedules(t *testing.T, path string, drawn []conductCase) {
	t.Helper()
	file, err := os.Create(path)
	need(t, err)
	w := bufio.NewWriter(file)
	for _, tc := range drawn {
		_, _ = w.Write(append(encoded(tc), '\n')) // Flush reports the error
	}
	need(t, w.Flush())
	need(t, file.Close())
}
