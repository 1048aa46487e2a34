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
	if j.outage == 0 {
		return
	}
	if len(j.outages) != 1 {
		j.Violated("resumed", "%d outages were recorded, want one", len(j.outages))
		return
	}
	away := j.outages[0]
	r := &outageReport{Seconds: seconds(away.to.Sub(away.from))}
	j.report.Outage = r
	for _, m := range j.Messages {
		during, counted, unsure := 0, 0, 0
		for _, x := range m.Runs {
			if x.Began.After(away.from) && x.Began.Before(away.to) {
				during++
			}
			if x.Outcome != audit.Failed || x.Uncounted {
				continue
			}
			if x.SessionLost() { // and may have had no time to say that it was not counted
				unsure++
			} else {
				counted++
			}
		}
		r.Attempts += during
		switch m.Do {
		case audit.Poison:
			if r.Poison++; counted > limit || counted+unsure < limit {
				j.Violated("exact", "%s had %d counted attempts, and its limit is %d: %s", m.ID, counted, limit, m)
			}
		case audit.Succeed:
			r.Counted += counted
			if j.Done(m).After(away.from) {
				r.Good++
			}
			if len(m.Dead) > 0 {
				r.Dead++
			}
		}
	}
	failures := j.failures(away)
	if allowed := mostCounted(failures) * (1 + j.lateSuccesses(away, failures)); r.Counted > allowed {
		j.Violated("counted", "%d failed attempts at good messages were counted, of %d allowed", r.Counted, allowed)
	}
	j.checkResumed(away, r)
}

// mostCounted is how many failed attempts at good messages a breaker may count: the first failures of outageBreaker
// messages. On a slow machine a message may fail again before so many have failed. Then it is every attempt at all
// messages but the last one.
func mostCounted(failures []*audit.Attempt) int {
	failed := map[string]bool{} // by message
	for _, x := range failures {
		switch {
		case x.Uncounted || len(failed) == outageBreaker:
		case failed[x.ID]:
			return (outageBreaker-1)*limit + 1
		default:
			failed[x.ID] = true
		}
	}
	return outageBreaker
}

// failures are the failed attempts at good messages since the service went away, in the order of their ends.
func (j *judge) failures(away span) (all []*audit.Attempt) {
	for _, m := range j.Messages {
		for _, x := range m.Runs {
			if m.Do == audit.Succeed && x.Outcome == audit.Failed && x.Ended.After(away.from) {
				all = append(all, x)
			}
		}
	}
	slices.SortFunc(all, func(a, b *audit.Attempt) int { return a.Ended.Compare(b.Ended) })
	return all
}

// lateSuccesses is the number of processes with a success that the store may take for one after the first failure of
// the outage. The service replied to it just before it went away. A process reports it with its next failure, and the
// breaker counts from zero again. The report may take reportTakes, and the success seems as much later.
func (j *judge) lateSuccesses(away span, failures []*audit.Attempt) (n int) {
	for _, p := range j.Processes {
		if slices.ContainsFunc(p.Runs, func(x *audit.Attempt) bool {
			return x.Outcome == audit.OK && len(failures) > 0 && x.Ended.Before(away.to) &&
				x.Ended.After(failures[0].Ended.Add(-reportTakes))
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
	for number, p := range j.Processes {
		if !p.Exited.IsZero() && p.Exited.Before(away.to) || len(p.Runs) == 0 {
			continue
		}
		first := audit.Never
		for _, x := range p.Runs {
			if goesOn(x) && x.Ended.After(away.to) && x.Ended.Before(first) {
				first = x.Ended
			}
		}
		since := away.to
		if opened := j.opened[number]; opened.After(since) {
			since = opened
		}
		all = append(all, first.Sub(away.to))
		switch late := first.Sub(since); {
		case first.Equal(audit.Never):
			j.Violated("resumed", "process %d did not go on after the outage", number)
		case late > resumedWithin:
			j.Violated("resumed", "process %d went on %.1f s after the outage or its next session, not within %v",
				number, seconds(late), resumedWithin)
		}
	}
	if len(all) == 0 {
		j.Violated("resumed", "no process ran at the end of the outage")
		return
	}
	r.ResumedFirst, r.ResumedAll = seconds(slices.Min(all)), seconds(slices.Max(all))
}

// goesOn reports whether an attempt shows that its process goes on: it succeeded, or its failure was counted. A process
// that has prefetched messages that always fail ends those first.
func goesOn(r *audit.Attempt) bool {
	counted := !r.Uncounted && !r.SessionLost() // with the session, the report that it was not counted may be lost
	return r.Outcome == audit.OK || r.Outcome == audit.Failed && counted
}

func seconds(d time.Duration) float64 { return d.Round(time.Second / 10).Seconds() }
