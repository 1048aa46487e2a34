package soak

import (
	"math/rand/v2"
	"slices"
	"time"

	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/internal/audit"
)

const (
	outageBreaker = 8 // Consumer.Breaker
	outagePoison  = 20
	poisonInARow  = 25 // at the head of the queue when the outage begins
	resumedWithin = 5 * time.Second
	leastOutage   = 5 * time.Second // the breaker is open after 2 s
	reportTakes   = time.Second     // at most, from a process to the store, on a busy machine
)

// settleOutage makes the outage the only fault. The queue is full before the consumers start.
func (c *config) settleOutage(given map[string]bool) {
	c.faults, c.backlog, c.killers, c.hangs = 1, 0, 0, 0
	if !given["messages"] {
		c.messages = 6000
	}
	if !given["concurrency"] {
		c.concurrency = 4
	}
}

// planOutage has one message in outagePoison always fail. Others succeed while the service that they call is there. The
// outage begins when a quarter of the messages is done.
func planOutage(jobs []work.Job, rnd *rand.Rand) []work.Job {
	for i := range jobs {
		jobs[i] = work.Job{Seq: i + 1, Do: audit.Succeed, Ms: 20 + rnd.IntN(40)}
		if from := len(jobs) / 4; rnd.IntN(outagePoison) == 0 || i >= from && i < from+poisonInARow {
			jobs[i].Do = audit.Poison
		}
	}
	return jobs
}

// outageReport has the figures of an outage.
type outageReport struct {
	Seconds  float64 `json:"seconds"`
	Attempts int     `json:"attempts"` // that began while the service was away
	Good     int     `json:"good"`     // messages that succeed while the service is there, and were not done before
	Dead     int     `json:"good_dead"`
	Counted  int     `json:"good_counted"` // failed attempts at good messages that were counted
	Poison   int     `json:"poison"`       // messages that always fail
	// from the service's return to the next attempt that succeeded or was counted: in the first process, and in the last
	ResumedFirst float64 `json:"resumed_first_seconds"`
	ResumedAll   float64 `json:"resumed_all_seconds"`
}

// checkOutage checks the three rules of an outage.
func (j *judge) checkOutage() {
	if !j.outage {
		return
	}
	if len(j.outages) != 1 {
		j.report.violated("resumed", "%d outages were recorded, want one", len(j.outages))
		return
	}
	away := j.outages[0]
	r := &outageReport{Seconds: seconds(away.to.Sub(away.from))}
	j.report.Outage = r
	for _, m := range j.messages {
		during, counted, unsure := 0, 0, 0
		for _, x := range m.runs {
			if x.began.After(away.from) && x.began.Before(away.to) {
				during++
			}
			if x.outcome != audit.Failed || x.uncounted {
				continue
			}
			if _, lost := x.process.gone[x.session]; lost { // and may have had no time to say that it was not counted
				unsure++
			} else {
				counted++
			}
		}
		r.Attempts += during
		switch m.do {
		case audit.Poison:
			if r.Poison++; counted > j.limit || counted+unsure < j.limit {
				j.report.violated("exact", "%s had %d counted attempts, and its limit is %d: %s", m.id, counted, j.limit, m)
			}
		case audit.Succeed:
			r.Counted += counted
			if j.done(m).After(away.from) {
				r.Good++
			}
			if m.dead > 0 {
				r.Dead++
			}
		}
	}
	if allowed := j.mostCounted(away) * (1 + j.lateSuccesses(away)); r.Counted > allowed {
		j.report.violated("counted", "%d failed attempts at good messages were counted, of %d allowed", r.Counted, allowed)
	}
	j.checkResumed(away, r)
}

// mostCounted is how many failed attempts at good messages a breaker may count: the first failures of outageBreaker
// messages. On a slow machine a message may fail again before so many have failed. Then it is every attempt at all
// messages but the last one.
func (j *judge) mostCounted(away span) int {
	var firsts, retries []time.Time
	for _, m := range j.messages {
		failed := 0
		for _, x := range m.runs {
			if m.do != audit.Succeed || x.outcome != audit.Failed || x.uncounted || x.ended.Before(away.from) {
				continue
			}
			if failed++; failed == 1 {
				firsts = append(firsts, x.ended)
			} else {
				retries = append(retries, x.ended)
			}
		}
	}
	slices.SortFunc(firsts, time.Time.Compare)
	if len(retries) > 0 && (len(firsts) < outageBreaker || slices.MinFunc(retries, time.Time.Compare).Before(
		firsts[outageBreaker-1])) {
		return (outageBreaker-1)*j.limit + 1
	}
	return outageBreaker
}

// lateSuccesses is the number of processes with a success that the store may take for one after the first failure of
// the outage. The service replied to it just before it went away. A process reports it with its next failure, and the
// breaker counts from zero again. The report may take reportTakes, and the success seems as much later.
func (j *judge) lateSuccesses(away span) (n int) {
	first := never
	for _, m := range j.messages {
		for _, x := range m.runs {
			if m.do == audit.Succeed && x.outcome == audit.Failed && x.ended.After(away.from) && x.ended.Before(first) {
				first = x.ended
			}
		}
	}
	for _, p := range j.processes {
		if slices.ContainsFunc(p.runs, func(x *run) bool {
			return x.outcome == audit.OK && x.ended.After(first.Add(-reportTakes)) && x.ended.Before(away.to)
		}) {
			n++
		}
	}
	return n
}

// checkResumed has every process that ran at the end of the outage go on soon, or soon after it has another session in
// place of one that was lost.
func (j *judge) checkResumed(away span, r *outageReport) {
	var all []time.Duration
	for number, p := range j.processes {
		if !p.exited.IsZero() && p.exited.Before(away.to) || len(p.runs) == 0 {
			continue
		}
		first := never
		for _, x := range p.runs {
			if x.goesOn() && x.ended.After(away.to) && x.ended.Before(first) {
				first = x.ended
			}
		}
		since := away.to
		if p.opened.After(since) {
			since = p.opened
		}
		all = append(all, first.Sub(away.to))
		switch late := first.Sub(since); {
		case first.Equal(never):
			j.report.violated("resumed", "process %d did not go on after the outage", number)
		case late > resumedWithin:
			j.report.violated("resumed", "process %d went on %.1f s after the outage or its next session, not within %v",
				number, seconds(late), resumedWithin)
		}
	}
	if len(all) == 0 {
		j.report.violated("resumed", "no process ran at the end of the outage")
		return
	}
	r.ResumedFirst, r.ResumedAll = seconds(slices.Min(all)), seconds(slices.Max(all))
}

// goesOn reports whether an attempt shows that its process goes on: it succeeded, or its failure was counted. A process
// that has prefetched messages that always fail ends those first.
func (r *run) goesOn() bool {
	_, lost := r.process.gone[r.session] // then the report that it was not counted may be lost
	return r.outcome == audit.OK || r.outcome == audit.Failed && !r.uncounted && !lost
}

func seconds(d time.Duration) float64 { return d.Round(time.Second / 10).Seconds() }
