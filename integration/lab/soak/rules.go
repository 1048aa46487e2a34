package soak

import (
	"cmp"
	"maps"
	"slices"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
)

// promises has the rules that a soak checks from end to end, in the order of the report. The simulation of package
// consumer checks each step with internal/audit. Here the broker and the store are real, and record nothing.
var promises = audit.Rules{
	{"lost", "each confirmed message was handled or dead-lettered"},
	{"bound", "a message ran no more often than its limit and the faults allow, and was dead-lettered no earlier"},
	{"innocents", "no message whose handler always succeeds was dead-lettered, nor counted if processes only stopped"},
	{"order", "no message was handled before an earlier one of its lane was done"},
	{"drained", "the queue was drained in time"},
	{"counted", "in an outage, few failed attempts at messages that only need the service were counted"},
	{"exact", "with an outage, a message that always fails was dead-lettered after its limit of counted attempts"},
	{"resumed", "soon after an outage, an attempt succeeded or was counted in every process"},
}

// report is the result of a soak.
type report struct {
	Seconds      float64        `json:"seconds"`
	Type         string         `json:"type"` // of the queue
	Seed         uint64         `json:"seed"`
	Messages     int            `json:"messages"`
	Runs         int            `json:"runs"`
	Dropped      int            `json:"dead_letters_dropped"` // by the broker, when it was killed: see checkLost
	Innocents    int            `json:"innocents_counted"`    // whose handlers always succeed
	Deaths       int            `json:"deaths"`               // of consumer processes
	DrainSeconds float64        `json:"drain_seconds"`        // once all was published and no fault began any more
	FaultsByKind map[string]int `json:"faults"`
	Outage       *outageReport  `json:"outage,omitempty"`
	*audit.Report
}

// span is a time in which a server is away.
type span struct{ from, to time.Time }

const (
	// limit is how many failed attempts dead-letter a message.
	limit = maxRetries + 1
	// left is how long after its deadline a handler is abandoned.
	left = 2 * time.Second
	// unaware is for how long a process may not know that its session was lost.
	unaware = 100 * time.Millisecond
	// election is for how long after its start a quorum queue may have no leader.
	election = 2 * time.Second
)

// judge is the history of a soak with its faults.
type judge struct {
	*audit.Model
	config
	report   *report
	begun    map[string]time.Time // when each kind of fault last was
	kills    []time.Time          // of the broker
	deaf     []span               // in which a dead-letter queue may not hear
	endpoint []time.Time          // when the endpoint died
	outages  []span               // of the service that handlers call
	opened   map[int]time.Time    // by process: its last session
	quiet    time.Time            // when faults were over and all was published
	drained  time.Time
	end      time.Time // of the history
}

// check decides the rules from a history in the order of its times.
func check(c config, history []audit.Event) *report {
	j := &judge{Model: audit.NewModel(promises), config: c, begun: map[string]time.Time{}, opened: map[int]time.Time{}}
	j.report = &report{Report: j.Report, FaultsByKind: map[string]int{}}
	j.Add(audit.Event{Kind: audit.Setup, Plan: &audit.Plan{MaxRetries: maxRetries, HandlerTimeout: c.handlerTimeout,
		Ordered: c.ordered}})
	for _, e := range history {
		j.add(e)
	}
	delete(j.Messages, "") // it has the events that are about no message
	for _, id := range slices.Sorted(maps.Keys(j.Messages)) {
		m := j.Messages[id]
		j.checkLost(m)
		j.checkBound(m)
		j.checkInnocent(m)
		j.report.Messages++
		j.report.Runs += len(m.Runs)
		j.MostRuns = max(j.MostRuns, len(m.Runs))
	}
	for _, p := range j.Processes {
		if p.Died() {
			j.report.Deaths++
		}
	}
	j.CheckOrder()
	j.checkDrained()
	j.checkOutage()
	return j.report
}

// add takes in an event.
func (j *judge) add(e audit.Event) {
	j.end = e.At
	p := j.Process(e.Process)
	switch e.Kind {
	case audit.Opened:
		if len(j.deaf) == 0 { // the broker has just started
			j.deaf = append(j.deaf, span{e.At, e.At.Add(election)})
		}
		j.opened[e.Process] = e.At
		for s := 1; s < e.Session; s++ { // it may have had no time to write down that it was lost
			lose(p.Session(s), e.At)
		}
	case audit.Lost:
		lose(p.Session(e.Session), e.At.Add(-unaware))
	case audit.Exited:
		p.Clean = e.Err == ""
	case audit.Began:
		if e.Remote { // the endpoint does not know
			e.Session = max(len(p.Sessions), 1)
		}
	case audit.Dead:
		if e.Outcome != audit.Rejected {
			j.Violated("bound", "%s was dead-lettered by the broker itself: %s", e.ID, e.Outcome)
		}
	case audit.Fault, audit.FaultOver:
		j.addFault(e)
	case audit.Quiet:
		j.quiet = e.At
	case audit.Drained:
		j.drained = e.At
	}
	j.Add(e)
}

func lose(s *audit.Session, at time.Time) {
	if s.Gone.IsZero() {
		s.Gone = at
	}
}

func (j *judge) addFault(e audit.Event) {
	switch {
	case e.Fault == audit.EndpointDied:
		j.endpoint = append(j.endpoint, e.At)
	case e.Fault == audit.DependencyAway && e.Kind == audit.FaultOver:
		j.outages = append(j.outages, span{j.begun[e.Fault], e.At})
	case e.Kind == audit.Fault:
		j.report.FaultsByKind[e.Fault]++
		j.begun[e.Fault] = e.At
		if e.Fault == audit.BrokerKill {
			j.kills = append(j.kills, e.At)
		}
	}
	if e.Kind == audit.FaultOver && (e.Fault == audit.BrokerKill || e.Fault == audit.BrokerRestart) {
		j.deaf = append(j.deaf, span{j.begun[e.Fault].Add(-audit.Slack), e.At.Add(election)})
	}
}

// checkLost allows for one loss, which is the broker's: a classic queue hands its dead letters over without waiting for
// a confirm. One that is on its way when the broker is killed may be in neither queue after it (1 of 8,248 in six kills
// of 4.0.5, decided on 8 ms before). So may one that follows the broker's start before the dead-letter queue has a
// leader (20 of 8,183 in 13 starts of 3.10.8, within half a second; all measured). A quorum queue keeps its own until
// the other has them.
func (j *judge) checkLost(m *audit.Message) {
	dropped := j.kind == "classic" && slices.ContainsFunc(m.Decided, func(at time.Time) bool {
		return slices.ContainsFunc(j.deaf, func(s span) bool { return !at.Before(s.from) && !at.After(s.to) })
	})
	switch {
	case !m.Lost():
	case dropped:
		j.report.Dropped++
	default:
		j.Violated("lost", "%s was confirmed and neither handled nor dead-lettered: %s", m.ID, m)
	}
}

// checkInnocent checks that a message whose handler always succeeds is not dead-lettered. A crash of it may be counted
// if its process dies at the wrong moment, or if it waits for the store too long. A stop is no reason to count.
func (j *judge) checkInnocent(m *audit.Message) {
	if m.Do != audit.Succeed && m.Do != audit.Slow {
		return
	}
	if len(m.Dead) > 0 {
		j.Violated("innocents", "%s was to %s, and was dead-lettered: %s", m.ID, m.Do, m)
	}
	if !m.Counted {
		return
	}
	j.report.Innocents++
	died := slices.ContainsFunc(slices.Collect(maps.Values(j.Processes)), func(p *audit.Process) bool {
		return p.Died() && len(p.Runs) > 0 // else the signal came before the process could heed it
	})
	late := slices.ContainsFunc(m.Runs, func(r *audit.Attempt) bool { return r.Outcome == audit.TimedOut })
	if of := j.report.FaultsByKind; of["sigterm"] > 0 && len(of) == 1 && !died && !late {
		j.Violated("innocents", "%s was to %s, and was counted although processes only stopped: %s", m.ID, m.Do, m)
	}
}

// checkBound checks that a message ran as often as it may, that it did not run again after it was handled with no
// reason, and that it was dead-lettered no earlier than its limit says.
func (j *judge) checkBound(m *audit.Message) {
	if len(m.Runs) == 0 {
		return
	}
	returned, handled := 0, 0
	for i, r := range m.Runs {
		until := j.end
		if i < len(m.Runs)-1 {
			until = m.Runs[i+1].Began
		}
		n := j.returns(r, until)
		returned += n
		if n == 0 && j.inTime(r) {
			handled++
		}
	}
	j.CheckBound(m, returned)
	switch {
	case handled > max(m.Copies, 1):
		j.Violated("bound", "%s ran again after it was handled: %s", m.ID, m)
	case len(m.Dead) > 0 && m.Do != audit.Reject && len(m.Attempts)+j.untold(m) < limit:
		j.Violated("bound", "%s was dead-lettered after %d attempts, and its limit is %d: %s", m.ID, len(m.Attempts),
			limit, m)
	}
}

// returns is the number of runs that a run allows beyond the limit, because the message went back to the queue
// uncounted. Until is when the next one began.
func (j *judge) returns(r *audit.Attempt, until time.Time) int {
	lost := r.SessionLost()
	died := r.Process.Died() || r.Remote && slices.ContainsFunc(j.endpoint, func(at time.Time) bool {
		return audit.Within(at, r.Began, until)
	})
	stopped := r.Process.Clean && audit.Within(r.Process.Exited, r.Began, until)
	switch {
	case r.Outcome == audit.OK && (lost || died):
		return 2 // its ack was lost, and the suspicion forgotten
	case lost, stopped, r.Uncounted, r.Outcome == audit.Cancelled, j.upset(r.Began, until), died && j.beside(r):
		return 1
	}
	return 0
}

// inTime reports whether it succeeded, and surely before its deadline. That of a request begins before the endpoint has
// it.
func (j *judge) inTime(r *audit.Attempt) bool {
	margin := unaware
	if r.Remote {
		margin = audit.Slack
	}
	return r.Outcome == audit.OK && r.Ended.Sub(r.Began) < j.handlerTimeout-margin
}

// beside reports whether an abandoned handler ran beside it, so that the crash of their process was not counted. A
// process in Go logs a START with ModeBesideAbandoned, because the handler may end while START goes to a slow store.
func (j *judge) beside(r *audit.Attempt) bool {
	return r.Beside() || slices.ContainsFunc(r.Process.Runs, func(x *audit.Attempt) bool {
		abandoned := x.Began.Add(j.handlerTimeout + left - unaware)
		over := cmp.Or(x.Ended, j.end)
		return x != r && !x.Remote && over.After(abandoned) && over.After(r.Began) &&
			cmp.Or(r.Process.Exited, j.end).After(abandoned)
	})
}

// upset reports whether the broker may have undone settlements that it had taken in between two times.
func (j *judge) upset(from, to time.Time) bool {
	return slices.ContainsFunc(j.kills, func(at time.Time) bool {
		return !at.Before(from.Add(-audit.Slack)) && !at.After(to)
	})
}

// untold is the number of attempts at a message that may have been counted before it was dead-lettered, although their
// handler did not begin. Their process or session ended between BEGUN and its reply. Those that are told need no guess.
func (j *judge) untold(m *audit.Message) (n int) {
	if !slices.Contains(j.languages, inHTTP) {
		return 0 // all consumers tell when they send BEGUN
	}
	to := j.end // its consumer may have had no time to write the decision down
	if len(m.Decided) > 0 {
		to = m.Decided[0]
	}
	all := slices.Clone(j.endpoint)
	for _, p := range j.Processes {
		all = append(all, p.Exited)
		for _, s := range p.Sessions {
			all = append(all, s.Gone)
		}
	}
	for _, at := range all {
		if audit.Within(at, m.Runs[0].Began, to) {
			n++
		}
	}
	return n
}

// checkDrained checks that the queue was drained in time.
func (j *judge) checkDrained() {
	took := j.drained.Sub(j.quiet)
	switch {
	case j.quiet.IsZero() || j.drained.IsZero():
		if j.Violations["drained"].Count == 0 {
			j.Violated("drained", "the queue was never seen drained")
		}
	case took > j.drainWithin():
		j.Violated("drained", "it took %v to drain the queue, and may take %v", took, j.drainWithin())
		fallthrough
	default:
		j.report.DrainSeconds = seconds(took)
	}
}
