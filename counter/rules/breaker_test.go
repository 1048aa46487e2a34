package rules_test

import (
	"encoding/json"
	"fmt"
	"math"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/strikesmq/strikes/counter/rules"
)

// fleet is a queue with a breaker of 3, on which a test takes steps one second apart unless it says otherwise.
type fleet struct {
	t       *testing.T
	q       rules.Queue
	records map[string]*rules.Record
	now     time.Time
	p       rules.Progress // of the next step
	tokens  int
}

func newFleet(t *testing.T) *fleet {
	return &fleet{t: t, q: rules.Queue{TTL: time.Hour}, records: map[string]*rules.Record{},
		now: time.UnixMilli(1_700_000_000_000).UTC(), p: rules.Progress{Breaker: 3}}
}

func (f *fleet) later(d time.Duration) { f.now = f.now.Add(d) }

// attempt is one at a message, with the progress that its process reports.
func (f *fleet) attempt(id string) (*rules.Record, rules.Attempt) {
	if f.records[id] == nil {
		f.records[id] = &rules.Record{Message: rules.Message{VHost: "/", Queue: "q", ID: id}}
	}
	f.tokens++
	p := f.p
	if p.Attempt.IsZero() {
		p.Attempt = f.now
	}
	return f.records[id], rules.Attempt{Message: f.records[id].Message, Token: fmt.Sprint("t", f.tokens), Progress: p}
}

// fail takes FAIL for each message, and returns the codes and counts.
func (f *fleet) fail(ids string) string {
	return f.failFor(rules.Failure{Limit: 4, Reason: "dial 10.0.0.7: refused"}, ids)
}

func (f *fleet) failFor(failure rules.Failure, ids string) string {
	var out []string
	for id := range strings.SplitSeq(ids, " ") {
		r, a := f.attempt(id)
		reply, keep := rules.Fail(r, &f.q, a, failure, f.now)
		again, _ := rules.Fail(r, &f.q, a, failure, f.now)
		if again.Code != reply.Code || again.Failures != reply.Failures {
			f.t.Errorf("FAIL of %s: %v %d, and repeated %v %d", id, reply.Code, reply.Failures, again.Code, again.Failures)
		}
		if keep > 0 {
			r.TTL = keep
		}
		out = append(out, fmt.Sprintf("%v%d", reply.Code, reply.Failures))
	}
	return strings.Join(out, " ")
}

// ask reports that this process had a success from began to ended, ages; negative: none.
func (f *fleet) ask(began, ended time.Duration) {
	p := f.p
	if began >= 0 {
		p.Began, p.Ended = f.now.Add(-began), f.now.Add(-ended)
	}
	if b := f.q.Breaker; b.Learn(p, f.now) {
		f.q.Breaker = b
	}
}

func (f *fleet) is(want string) {
	f.t.Helper()
	got := "closed"
	switch b := f.q.Breaker; {
	case !b.Open.IsZero():
		got = "open"
	case !b.Doubt.IsZero():
		got = "in doubt"
	}
	if got = fmt.Sprint(got, " ", len(f.q.Breaker.Streak)); got != want {
		f.t.Errorf("the breaker is %s, want %s", got, want)
	}
}

func (f *fleet) want(got, want string) {
	f.t.Helper()
	if got != want {
		f.t.Errorf("replies: %s, want %s", got, want)
	}
}

func TestBreaker(t *testing.T) {
	const never = -time.Second
	for name, test := range map[string]func(*fleet){
		"retries do not lengthen the streak": func(f *fleet) {
			f.want(f.fail("a b"), "REQUEUE1 REQUEUE1")
			f.want(f.fail("a b a b"), "REQUEUE2 REQUEUE2 REQUEUE3 REQUEUE3")
			f.is("closed 2")
			f.want(f.fail("c"), "REQUEUE1")
			f.is("in doubt 3")
			f.want(f.fail("d a"), "UNCOUNTED0 UNCOUNTED3")
		},
		"a success ends the doubt": func(f *fleet) {
			f.fail("a b c")
			f.later(time.Second)
			f.ask(3*time.Second, time.Second) // it ended before the doubt
			f.is("in doubt 3")
			f.ask(3*time.Second, 500*time.Millisecond)
			f.is("closed 0")
			f.want(f.fail("d a"), "REQUEUE1 REQUEUE2")
		},
		"a success that began after a failure takes it off the streak": func(f *fleet) {
			f.fail("a")
			f.later(time.Second)
			f.fail("b")
			f.later(time.Second)
			f.ask(1500*time.Millisecond, 1200*time.Millisecond)
			f.is("closed 1")
		},
		"a failure that counts nothing reports a success": func(f *fleet) {
			f.fail("a a a a") // it is exhausted
			f.fail("b c d")
			f.later(time.Second)
			f.p.Began, f.p.Ended = f.now, f.now
			f.want(f.fail("a"), "EXHAUSTED4")
			f.is("closed 0")
		},
		"it opens, gives permits, and closes": func(f *fleet) {
			f.fail("a b c")
			f.later(2 * time.Second)
			f.ask(never, never)
			f.is("open 3")
			var permits []string
			for opened := f.now; len(permits) < 4; f.later(500 * time.Millisecond) {
				if f.q.Breaker.Permit(f.now) {
					permits = append(permits, fmt.Sprint(f.now.Sub(opened)))
				}
			}
			f.want(strings.Join(permits, " "), "1s 3s 6s 9s")
			f.want(f.fail("d"), "UNCOUNTED0")
			f.ask(time.Minute, 0) // it began before the opening
			f.is("open 3")
			f.ask(time.Second, 0)
			f.is("closed 0")
			f.p.Attempt = f.now.Add(-time.Second)
			f.want(f.fail("a d"), "UNCOUNTED1 UNCOUNTED0")
			f.p.Attempt = f.now
			f.want(f.fail("a d"), "REQUEUE2 REQUEUE1")
		},
		"a failing process alone": func(f *fleet) {
			f.p.Failing = true
			f.want(f.fail("a b c d"), "UNCOUNTED0 UNCOUNTED0 UNCOUNTED0 UNCOUNTED0")
			f.is("closed 0")
		},
		"a handler that could not work": func(f *fleet) {
			away := rules.Failure{Limit: 4, Cause: rules.CauseNotCounted}
			f.want(f.failFor(away, "a a a b"), "UNCOUNTED0 UNCOUNTED0 UNCOUNTED0 UNCOUNTED0")
			f.is("closed 2")
			f.failFor(away, "c")
			f.is("in doubt 3")
		},
		"a rejected message": func(f *fleet) {
			f.fail("a b c")
			f.want(f.failFor(rules.Failure{Cause: rules.CauseRejected}, "d a"), "EXHAUSTED1 EXHAUSTED2")
		},
		"an operator wants failures counted": func(f *fleet) {
			f.fail("a b c")
			if !f.q.Breaker.Resume(time.Minute, f.now) {
				f.t.Error("nothing to resume")
			}
			f.later(time.Second)
			f.want(f.fail("d e f g a a"), "REQUEUE1 REQUEUE1 REQUEUE1 REQUEUE1 REQUEUE2 REQUEUE3")
			f.later(time.Minute)
			f.fail("h i j")
			f.is("in doubt 3")
			f.later(time.Millisecond)
			if f.ask(0, 0); f.q.Breaker.Resume(0, f.now) {
				f.t.Error("a closed breaker was resumed")
			}
		},
		"an operator closes it during the outage": func(f *fleet) {
			f.fail("a b c d")
			f.later(2 * time.Second)
			f.ask(never, never)
			f.is("open 3")
			f.q.Breaker.Resume(0, f.now)
			f.later(time.Second)
			f.want(f.fail("a a b d"), "REQUEUE2 UNCOUNTED2 UNCOUNTED1 UNCOUNTED0")
			f.is("in doubt 1")
			f.later(2 * time.Second)
			f.ask(never, never)
			f.is("open 1")
		},
		"an operator closes it after the outage": func(f *fleet) {
			f.fail("a b c")
			f.q.Breaker.Resume(0, f.now)
			f.later(time.Second)
			f.ask(time.Second/2, 0)
			f.later(time.Second)
			f.want(f.fail("a b c a"), "REQUEUE2 REQUEUE2 REQUEUE2 REQUEUE3")
			f.is("closed 0")
		},
		"a success ends the doubt after an operator closed it": func(f *fleet) {
			f.fail("a b c")
			f.q.Breaker.Resume(0, f.now)
			f.later(time.Second)
			f.fail("a")
			f.later(time.Second)
			f.ask(10*time.Second, 0)
			f.want(f.fail("a b c a"), "REQUEUE3 REQUEUE2 REQUEUE2 EXHAUSTED4")
			f.is("closed 0")
		},
		"an operator wants failures counted after closing it": func(f *fleet) {
			f.fail("a b c")
			f.q.Breaker.Resume(0, f.now)
			f.q.Breaker.Resume(time.Minute, f.now)
			f.later(2 * time.Minute)
			f.want(f.fail("a b d"), "REQUEUE2 REQUEUE2 REQUEUE1")
			f.is("closed 1")
		},
		"an operator ends the count": func(f *fleet) {
			f.fail("a b c")
			f.q.Breaker.Resume(time.Minute, f.now)
			if !f.q.Breaker.Resume(0, f.now) || f.q.Breaker.Resume(0, f.now) {
				f.t.Error("the count ends once")
			}
			f.later(time.Second)
			f.fail("d e f")
			f.is("in doubt 3")
		},
		"a process without a breaker counts": func(f *fleet) {
			f.fail("a b c")
			f.p = rules.Progress{}
			f.want(f.fail("d a"), "REQUEUE1 REQUEUE2")
		},
		"the clock is set back": func(f *fleet) {
			f.fail("a b c")
			f.later(-30 * time.Second)
			f.ask(never, never)
			f.is("in doubt 3")
			f.later(2 * time.Second)
			f.ask(never, never)
			f.is("open 3")
			f.later(-30 * time.Second)
			f.ask(never, never)
			f.later(3 * time.Second)
			if !f.q.Breaker.Permit(f.now) {
				f.t.Error("no permit")
			}
			f.ask(0, 0)
			f.is("closed 0")
		},
		"an operator's count ends within a day, also if the clock is set back": func(f *fleet) {
			f.q.Breaker.Resume(10*time.Minute, f.now)
			f.later(-72 * time.Hour)
			f.ask(never, never)
			f.fail("a b c")
			f.is("closed 0")
			f.later(24 * time.Hour)
			f.fail("d e f")
			f.is("in doubt 3")
		},
		"the clock is set back after the closing": func(f *fleet) {
			f.fail("a b c")
			f.later(2 * time.Second)
			f.ask(never, never)
			f.later(time.Second)
			f.ask(0, 0)
			f.is("closed 0")
			f.later(-time.Hour)
			f.p.Attempt = f.now.Add(-time.Second) // perhaps before the closing
			f.want(f.fail("d"), "UNCOUNTED0")
			f.later(time.Minute)
			f.p.Attempt = f.now.Add(-time.Second)
			f.want(f.fail("d"), "REQUEUE1")
		},
		"messages that wait for a success may fill the prefetch": func(f *fleet) {
			f.p.Patience = time.Hour
			f.fail("a b")
			f.later(time.Second)
			f.ask(500*time.Millisecond, 0)
			f.fail("a a b b c")
			f.is("closed 1")
			f.want(f.fail("a a"), "UNCOUNTED3 UNCOUNTED3")
			f.is("closed 2")
			f.want(f.fail("b"), "UNCOUNTED3")
			f.is("in doubt 3")
		},
		"an outage makes no message too old": func(f *fleet) {
			aged := func(id string) string {
				r, a := f.attempt(id)
				a.MaxAge = time.Minute
				reply, _ := rules.Fail(r, &f.q, a, rules.Failure{Limit: 9}, f.now)
				return fmt.Sprintf("%v%d%s", reply.Code, reply.Failures, r.Cause)
			}
			f.fail("a b c")
			f.later(10 * time.Minute)
			f.ask(never, never)
			f.later(time.Second)
			f.ask(0, 0)
			f.later(59 * time.Second)
			f.want(aged("a"), "REQUEUE2failed")
			f.later(2 * time.Second)
			f.want(aged("a"), "EXHAUSTED3too-old")
		},
	} {
		t.Run(name, func(t *testing.T) { test(newFleet(t)) })
	}
}

// TestPatience: the last allowed attempt waits for a success elsewhere, and does not count without one.
func TestPatience(t *testing.T) {
	f := newFleet(t)
	f.p.Patience = time.Hour
	start := func() string {
		r, a := f.attempt("a")
		reply, _ := rules.Start(r, &f.q, a, rules.ModeUntracked, 4, f.now)
		return fmt.Sprint(reply.Code, " ", reply.Wait)
	}
	waits := func() {
		f.want(start(), "WAIT 1s")
		f.later(29500 * time.Millisecond)
		f.want(start(), "WAIT 500ms")
		f.later(time.Second)
		f.want(start(), "RUN 0s")
	}
	f.want(f.fail("a a a"), "REQUEUE1 REQUEUE2 REQUEUE3")
	waits()
	f.want(f.fail("a a"), "UNCOUNTED3 UNCOUNTED3")
	f.later(time.Second)
	f.ask(time.Second/2, 0)
	f.want(start(), "RUN 0s")
	f.want(f.fail("a"), "EXHAUSTED4")

	f = newFleet(t)
	f.p.Patience = time.Hour
	f.want(f.fail("a a a a"), "REQUEUE1 REQUEUE2 REQUEUE3 UNCOUNTED3")
	if !f.q.Breaker.Resume(time.Minute, f.now) {
		t.Error("a closed breaker keeps an operator from having failures counted")
	}
	f.want(start(), "RUN 0s")
	f.want(f.fail("a"), "EXHAUSTED4")

	f = newFleet(t)
	f.p.Patience = time.Minute
	f.fail("a a a")
	f.later(time.Minute)
	f.want(f.fail("a"), "EXHAUSTED4")

	f = newFleet(t)
	f.p.Patience = time.Hour
	f.fail("a a a")
	f.later(-2 * time.Hour) // the store's clock is set back
	r, a := f.attempt("a")
	a.Progress = rules.Progress{}
	failed := r.FirstTime
	if rules.Start(r, &f.q, a, rules.ModeUntracked, 4, f.now); !r.FirstTime.Equal(failed) {
		t.Errorf("a consumer without a breaker moves the first failure from %v to %v", failed, r.FirstTime)
	}
	waits()
	f.want(f.fail("a"), "UNCOUNTED3")
	f.later(time.Hour)
	f.want(f.fail("a"), "EXHAUSTED4")
}

func TestBreakersTextIsReadAgain(t *testing.T) {
	at := time.UnixMilli(1_700_000_000_000).UTC()
	for _, b := range []rules.Breaker{{}, {Streak: []rules.StreakFailure{{At: at, Message: "00ff00ff00ff00ff"}}, Doubt: at,
		Open: at, Closed: at, Next: at, Permits: 3, Count: at, Success: at, Awaited: at, Reason: "a\x00\xff b", Alike: 1}} {
		got, ok := rules.DecodeBreaker(rules.EncodeBreaker(b))
		if diff := cmp.Diff(b, got, cmpopts.EquateEmpty()); diff != "" || !ok {
			t.Error(diff)
		}
	}
	for _, text := range []string{
		"", "no", "1 2 3\n", "0 0 0 0 0 0 0 0 x .\n", "0 0 0 0 0 0 0 0 0 .", "0 0 0 0 0 0 0 0 0 x\n",
	} {
		if _, ok := rules.DecodeBreaker(text); ok {
			t.Errorf("%q is a breaker", text)
		}
	}
}

// TestTimesOfTheStoreFitJSON: JSON has no year after 9999, and a document of another program may have one.
func TestTimesOfTheStoreFitJSON(t *testing.T) {
	far := strconv.FormatInt(math.MaxInt64, 10)
	b, ok := rules.DecodeBreaker(strings.Repeat(far+" ", 5) + "1 " + far + " " + far + " 0 .;" + far + "=a\nr")
	if !ok {
		t.Fatal("no breaker")
	}
	l, ok := rules.DecodeLane("1 1 1 1 " + far + " o 1 0 0 false 0 0 0\n")
	if !ok {
		t.Fatal("no lane")
	}
	before, ok := rules.DecodeLane("1 1 1 1 -" + far + " o 1 0 0 false 0 0 0\n")
	if !ok {
		t.Fatal("no lane")
	}
	text := strings.Replace(rules.Encode(rules.Record{FirstTime: time.UnixMilli(7), LastTime: time.UnixMilli(8),
		State: rules.StateLive}), " 7 1 ", " "+far+" "+far+" ", 1)
	r, ok := rules.Decode(text)
	if !ok || r.FirstTime.UnixMilli() == 7 {
		t.Fatalf("no record with another time: %q", text)
	}
	for _, v := range []any{b, l, before, r} {
		if _, err := json.Marshal(v); err != nil {
			t.Errorf("%T: %v", v, err)
		}
	}
}
