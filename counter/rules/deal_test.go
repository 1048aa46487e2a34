package rules

import (
	"fmt"
	"math"
	"slices"
	"testing"
	"time"

	"pgregory.net/rapid"
)

// fleet reads a deal as its processes would.
type fleet struct {
	t    *testing.T
	deal Deal
	n    int
	now  time.Time
	has  map[string][]int // by each process
}

func newFleet(t *testing.T, n int) *fleet {
	return &fleet{t: t, n: n, now: time.Unix(1700000000, 0).UTC(), has: map[string][]int{}}
}

func (f *fleet) read(token string) []int {
	f.t.Helper()
	mine, ok := f.ask(DealRead{Token: token, Consumes: f.has[token]})
	if !ok {
		f.t.Fatalf("%s: refused", token)
	}
	f.has[token] = mine
	return mine
}

// ask reads the deal as a store does: it saves only a deal that has changed.
func (f *fleet) ask(r DealRead) (mine []int, ok bool) {
	d := f.deal
	d.Members = slices.Clone(d.Members)
	for i := range d.Members {
		d.Members[i].Partitions = slices.Clone(d.Members[i].Partitions)
	}
	r.Partitions = f.n
	mine, changed, ok := d.Deal(r, f.now)
	if changed {
		f.deal = d
	}
	return mine, ok
}

// seconds lets each process read once a second.
func (f *fleet) seconds(n int, tokens ...string) {
	f.t.Helper()
	for range n {
		f.now = f.now.Add(time.Second)
		for _, token := range tokens {
			f.read(token)
		}
	}
}

func (f *fleet) leave(token string) {
	f.ask(DealRead{Token: token, Left: true})
	delete(f.has, token)
}

// whole fails unless each partition has one process, the numbers differ by one at most, and the processes know it.
func (f *fleet) whole(when string) {
	f.t.Helper()
	of := map[int]string{}
	least, most := f.n, 0
	for _, m := range f.deal.Members {
		least, most = min(least, len(m.Partitions)), max(most, len(m.Partitions))
		if !slices.Equal(m.Partitions, f.has[m.Token]) {
			f.t.Errorf("%s: %s knows %v, dealt %v", when, m.Token, f.has[m.Token], m.Partitions)
		}
		for _, p := range m.Partitions {
			if of[p] != "" {
				f.t.Errorf("%s: partition %d has %s and %s", when, p, of[p], m.Token)
			}
			of[p] = m.Token
		}
	}
	if len(of) != f.n || most-least > 1 {
		f.t.Errorf("%s: %d of %d partitions dealt, %d to %d each", when, len(of), f.n, least, most)
	}
}

func names(n int) (out []string) {
	for i := range n {
		out = append(out, fmt.Sprintf("p%03d", i))
	}
	return out
}

// TestDealOfEveryFleet: fleets of 1 to N+2 processes share N partitions evenly, and a join or a leave moves no more
// than it must.
func TestDealOfEveryFleet(t *testing.T) {
	for _, n := range []int{2, 3, 8, 16} {
		for size := 1; size <= n+2; size++ {
			f, all := newFleet(t, n), names(size)
			f.seconds(2, all...)
			f.whole(fmt.Sprintf("%d processes, %d partitions", size, n))

			before := f.owners()
			joined := append(slices.Clone(all), "zz")
			f.seconds(2, joined...)
			f.whole("a join")
			if got, want := moved(before, f.owners()), n/(size+1); got > max(want, 0) {
				t.Errorf("%d processes, %d partitions: a join moved %d, want %d at most", size, n, got, want)
			}

			before = f.owners()
			had := len(f.has["p000"])
			f.leave("p000")
			rest := joined[1:]
			f.seconds(2, rest...)
			f.whole("a leave")
			if got := moved(before, f.owners()); got > had {
				t.Errorf("%d processes, %d partitions: a leave moved %d, had %d", size, n, got, had)
			}

			f.seconds(7, rest[:len(rest)/2+1]...) // the others died
			f.whole("an expiry")
			if got := len(f.deal.Members); got != len(rest)/2+1 {
				t.Errorf("%d processes after the others died, want %d", got, len(rest)/2+1)
			}
		}
	}
}

func (f *fleet) owners() map[int]string {
	of := map[int]string{}
	for _, m := range f.deal.Members {
		for _, p := range m.Partitions {
			of[p] = m.Token
		}
	}
	return of
}

func moved(before, after map[int]string) (n int) {
	for p, token := range after {
		if before[p] != token {
			n++
		}
	}
	return n
}

func TestDealStaysInTrouble(t *testing.T) {
	all := names(4)
	for name, trouble := range map[string]func(*fleet){
		"the store was away for 10 s": func(f *fleet) { f.now = f.now.Add(10 * time.Second) },
		"the store was emptied":       func(f *fleet) { f.deal = Deal{} },
		"its clock was set back":      func(f *fleet) { f.now = f.now.Add(-time.Hour) },
		"its clock was set forward":   func(f *fleet) { f.now = f.now.Add(time.Hour) },
	} {
		f := newFleet(t, 8)
		f.seconds(3, all...)
		before := f.owners()
		trouble(f)
		f.seconds(8, all...)
		f.whole(name)
		if n := moved(before, f.owners()); n > 0 {
			t.Errorf("%s: %d partitions moved", name, n)
		}
		f.seconds(12, all[:3]...) // it still expires
		f.whole(name + ", then one died")
		if n := len(f.deal.Members); n != 3 {
			t.Errorf("%s: %d processes, want 3", name, n)
		}
	}
}

// TestDealAfterAFlushServesANewProcess: a process that consumed nothing before does not wait for others.
func TestDealAfterAFlushServesANewProcess(t *testing.T) {
	f := newFleet(t, 4)
	if got := f.read("a"); len(got) != 4 {
		t.Errorf("the first process of a new deal got %v, want all", got)
	}
	f.deal = Deal{}
	f.seconds(1, "a", "b")
	f.seconds(1, "a", "b")
	f.whole("a new process after a flush")

	f = newFleet(t, 4) // one that died in a flush leaves its partitions to the others
	f.seconds(2, "a", "b")
	f.deal = Deal{}
	f.seconds(7, "a")
	f.whole("a process died in a flush")
}

func TestDealRefusesAnotherNumber(t *testing.T) {
	f := newFleet(t, 8)
	f.seconds(2, "a", "b")
	if _, _, ok := f.deal.Deal(DealRead{Token: "c", Partitions: 4}, f.now); ok {
		t.Error("4 partitions were dealt while processes share 8")
	}
	f.seconds(1, "a", "b")
	f.whole("after a refusal")
	f.leave("a")
	f.leave("b")
	f.n = 4
	f.seconds(1, "c")
	f.whole("after all have left")
}

// TestDealOfAFleetThatWasKilled: processes that were killed keep those of another number off for their lease alone,
// whenever these begin.
func TestDealOfAFleetThatWasKilled(t *testing.T) {
	for _, later := range []time.Duration{0, time.Minute} {
		f := newFleet(t, 8)
		f.seconds(2, "a", "b")
		f.now, f.n = f.now.Add(later), 4
		for range 7 {
			f.now = f.now.Add(time.Second)
			f.has["c"], _ = f.ask(DealRead{Token: "c", Consumes: f.has["c"]})
		}
		f.whole(fmt.Sprintf("%v after the others were killed", later))
	}
}

// TestDealIsSavedSeldom: a read within the renewal that changes nothing is not saved.
func TestDealIsSavedSeldom(t *testing.T) {
	f := newFleet(t, 8)
	f.seconds(3, "a", "b")
	for range 5 {
		f.now = f.now.Add(100 * time.Millisecond)
		if _, changed, _ := f.deal.Deal(DealRead{Token: "a", Partitions: 8, Consumes: f.has["a"]}, f.now); changed {
			t.Error("a read 100 ms after another is saved")
		}
	}
}

// TestDealOfAnyHistory: whatever happened, the deal is whole once the same processes have read for long enough.
func TestDealOfAnyHistory(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		f := newFleet(t, rapid.IntRange(2, 12).Draw(rt, "partitions"))
		all := names(6)
		for range rapid.IntRange(0, 40).Draw(rt, "steps") {
			token := rapid.SampledFrom(all).Draw(rt, "process")
			switch rapid.IntRange(0, 5).Draw(rt, "what") {
			case 0:
				f.leave(token)
			case 1:
				f.now = f.now.Add(time.Duration(rapid.OneOf(rapid.IntRange(-20, 20),
					rapid.Just(-3600)).Draw(rt, "s")) * time.Second)
			case 2:
				if rapid.IntRange(0, 4).Draw(rt, "flush") == 0 {
					f.deal = Deal{}
				}
			default:
				f.now = f.now.Add(300 * time.Millisecond)
				f.read(token)
			}
		}
		live := all[:rapid.IntRange(1, 6).Draw(rt, "live")]
		f.seconds(14, live...)
		f.whole("in the end")
		if len(f.deal.Members) != len(live) {
			rt.Errorf("%d processes, want %d", len(f.deal.Members), len(live))
		}
		if t.Failed() {
			rt.FailNow()
		}
	})
}

// TestDealOfAnotherNumber: a process that leaves gives nothing away in a deal of another number of partitions. Another
// program may have written the number.
func TestDealOfAnotherNumber(t *testing.T) {
	now := time.Unix(1000, 0)
	d := Deal{Partitions: math.MaxInt, Read: now, Members: []Member{{Token: "a", Read: now}}}
	if mine, changed, ok := d.Deal(DealRead{Token: "b", Left: true, Partitions: 4}, now); mine != nil || changed || !ok {
		t.Errorf("%v, %v, %v", mine, changed, ok)
	}
}
