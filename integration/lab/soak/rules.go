package soak

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/audit"
)

// rules has the rules that a soak checks from end to end, in the order of the report. The simulation of package
// consumer checks each step with internal/audit. Here the broker and the store are real, and record nothing.
var rules = []struct{ name, text string }{
	{"lost", "each confirmed message was handled or dead-lettered"},
	{"bound", "a message ran no more often than its limit and the faults allow, and was dead-lettered no earlier"},
	{"innocents", "no message whose handler always succeeds was dead-lettered, nor counted if processes only stopped"},
	{"order", "no message was handled before an earlier one of its lane was done"},
	{"drained", "the queue was drained in time"},
	{"counted", "in an outage, few failed attempts at messages that only need the service were counted"},
	{"exact", "with an outage, a message that always fails was dead-lettered after its limit of counted attempts"},
	{"resumed", "soon after an outage, an attempt succeeded or was counted in every process"},
}

// promise has the settings of a soak on which the rules depend.
type promise struct {
	kind           string // of the queue
	limit          int    // failed attempts that dead-letter a message
	handlerTimeout time.Duration
	drainWithin    time.Duration
	cluster        bool // the broker has several nodes, of which one at a time may fail
	ordered        bool // in each lane
	blind          bool // some consumers do not tell when they send BEGUN
	outage         bool // all handlers call a service that is away once, and consumers have a breaker
}

// finding has the violations of one rule.
type finding struct {
	Count   int    `json:"count"`
	Example string `json:"example,omitempty"`
}

// report is the result of a soak.
type report struct {
	Messages     int                `json:"messages"`
	Copies       int                `json:"copies"` // published again, because the first time was undecided
	Runs         int                `json:"runs"`
	MostRuns     int                `json:"most_runs"` // of one message
	DeadLetters  int                `json:"dead_letters"`
	Dropped      int                `json:"dead_letters_dropped"` // by the broker, when it was killed: see checkLost
	Innocents    int                `json:"innocents_counted"`    // whose handlers always succeed
	Deaths       int                `json:"deaths"`               // of consumer processes
	Sessions     int                `json:"sessions"`
	DrainSeconds float64            `json:"drain_seconds"` // once all was published and no fault began any more
	FaultsByKind map[string]int     `json:"faults"`
	Outage       *outageReport      `json:"outage,omitempty"`
	Violations   map[string]finding `json:"violations"`
}

// broken lists the rules that were violated, each with an example.
func (r *report) broken() (out []string) {
	for _, rule := range rules {
		if f := r.Violations[rule.name]; f.Count > 0 {
			out = append(out, fmt.Sprintf("%s (%s), %d times: %s", rule.name, rule.text, f.Count, f.Example))
		}
	}
	return out
}

func (r *report) violated(rule, format string, args ...any) {
	f := r.Violations[rule]
	if f.Count++; f.Count == 1 {
		f.Example = fmt.Sprintf(format, args...)
	}
	r.Violations[rule] = f
}

// message has the events of one message.
type message struct {
	id, do, lane string
	seq, copies  int // copies that may have reached the queue
	confirmed    bool
	runs         []*run          // in the order in which they began
	attempts     map[string]bool // tokens of those that may have been counted
	counted      bool            // an attempt failed, or crashed
	dead         int             // letters of it
	decided      []time.Time     // when a consumer was about to dead-letter it
}

// given is when it was first given to the dead-letter queue, as far as its consumer had time to write that down.
func (m *message) given() time.Time {
	if len(m.decided) == 0 {
		return never
	}
	return m.decided[0]
}

// never is later than anything that happens.
var never = time.Unix(1<<40, 0)

func (m *message) handled() bool {
	return slices.ContainsFunc(m.runs, func(r *run) bool { return r.outcome == audit.OK })
}

// run is one run of a handler.
type run struct {
	process      *process
	session      int
	remote       bool
	began, ended time.Time // ended is zero if it did not return
	outcome      string
	uncounted    bool // it failed, and that was not counted
}

type process struct {
	gone     map[int]time.Time // by session: when it was lost
	sessions int
	opened   time.Time // the last one
	exited   time.Time // zero: not
	killed   bool
	runs     []*run
}

func (p *process) died() bool { return p.killed && !p.exited.IsZero() }

// span is a time in which the broker may undo the publishes and acks of the moments before.
type span struct{ from, to time.Time }

const (
	// left is how long after its deadline a handler is abandoned.
	left = 2 * time.Second
	// unaware is for how long a process may not know that its session was lost.
	unaware = 100 * time.Millisecond
	// slack is the largest error of the time between the events of two processes.
	slack = time.Second
	// aftermath is for how long after a fault the nodes of a cluster may still come to terms with it.
	aftermath = 10 * time.Second
	// election is for how long after its start a quorum queue may have no leader.
	election = 2 * time.Second
)

// judge is a history, sorted by message, process and session.
type judge struct {
	promise
	report    *report
	messages  map[string]*message
	processes map[int]*process
	runs      map[string]*run      // by token
	begun     map[string]time.Time // when each kind of fault last was
	upsets    []span               // of the broker
	deaf      []span               // in which a dead-letter queue may not hear
	losses    []time.Time          // of the store
	endpoint  []time.Time          // when the endpoint died
	outages   []span               // of the service that handlers call
	quiet     time.Time            // when faults were over and all was published
	drained   time.Time
	end       time.Time // of the history
}

// check decides the rules from a history in the order of its times.
func check(p promise, history []audit.Event) *report {
	j := &judge{
		promise: p, report: &report{FaultsByKind: map[string]int{}, Violations: map[string]finding{}},
		messages: map[string]*message{}, processes: map[int]*process{}, runs: map[string]*run{},
		begun: map[string]time.Time{},
	}
	for _, rule := range rules {
		j.report.Violations[rule.name] = finding{}
	}
	for _, e := range history {
		j.add(e)
	}
	for _, id := range slices.Sorted(maps.Keys(j.messages)) {
		m := j.messages[id]
		j.checkLost(m)
		j.checkBound(m)
		j.checkInnocent(m)
		j.report.Messages++
		j.report.Copies += max(m.copies-1, 0)
		j.report.Runs += len(m.runs)
		j.report.MostRuns = max(j.report.MostRuns, len(m.runs))
		j.report.DeadLetters += m.dead
	}
	for _, p := range j.processes {
		j.report.Sessions += p.sessions
		if p.died() {
			j.report.Deaths++
		}
	}
	j.checkOrder()
	j.checkDrained()
	j.checkOutage()
	return j.report
}

// add takes in an event.
func (j *judge) add(e audit.Event) {
	j.end = e.At
	p, m := j.process(e.Process), j.message(e.ID)
	switch e.Kind {
	case audit.Published:
		m.do, m.seq, m.lane = e.Do, e.Seq, e.Lane
		m.confirmed = m.confirmed || e.Outcome == audit.Confirmed
		if e.Outcome != audit.Unsent {
			m.copies++
		}
	case audit.Opened:
		if len(j.deaf) == 0 { // the broker has just started
			j.deaf = append(j.deaf, span{e.At, e.At.Add(election)})
		}
		p.sessions, p.opened = max(p.sessions, e.Session), e.At
		for s := 1; s < e.Session; s++ { // it may have had no time to write down that it was lost
			p.lose(s, e.At)
		}
	case audit.Lost:
		p.lose(e.Session, e.At.Add(-unaware))
	case audit.Exited:
		p.exited, p.killed = e.At, e.Err != ""
	case audit.Asked:
		m.attempts[e.Token] = true
	case audit.Began:
		m.attempts[e.Token] = true
		if e.Remote { // the endpoint does not know
			e.Session = max(p.sessions, 1)
		}
		r := &run{process: p, session: e.Session, remote: e.Remote, began: e.At}
		m.runs, p.runs, j.runs[e.Token] = append(m.runs, r), append(p.runs, r), r
	case audit.Ended:
		if r := j.runs[e.Token]; r != nil {
			r.ended, r.outcome = e.At, e.Outcome
		}
	case audit.Uncounted:
		if r := j.runs[e.Token]; r != nil {
			r.uncounted = true
		}
	case audit.Decided:
		m.decided = append(m.decided, e.At)
	case audit.Counted:
		m.counted = true
	case audit.Dead:
		if m.dead++; e.Outcome != audit.Rejected {
			j.report.violated("bound", "%s was dead-lettered by the broker itself: %s", e.ID, e.Outcome)
		}
	case audit.Forgot:
		j.losses = append(j.losses, e.At)
	case audit.Fault, audit.FaultOver:
		j.addFault(e)
	case audit.Quiet:
		j.quiet = e.At
	case audit.Drained:
		j.drained = e.At
	case audit.Undrained:
		j.report.violated("drained", "not drained: %s", e.Err)
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
			j.upsets = append(j.upsets, span{e.At, e.At})
		}
	case j.cluster:
		// deliveries of the node's clients go to others; their sessions stay, and the broker ignores their acks
		j.upsets = append(j.upsets, span{j.begun[e.Fault], e.At.Add(aftermath)})
	}
	if e.Kind == audit.FaultOver && (e.Fault == audit.BrokerKill || e.Fault == audit.BrokerRestart) {
		j.deaf = append(j.deaf, span{j.begun[e.Fault].Add(-slack), e.At.Add(election)})
	}
}

func (j *judge) message(id string) *message {
	if j.messages[id] == nil && id != "" {
		j.messages[id] = &message{id: id, attempts: map[string]bool{}}
	}
	return j.messages[id]
}

func (j *judge) process(n int) *process {
	if j.processes[n] == nil && n > 0 {
		j.processes[n] = &process{gone: map[int]time.Time{}}
	}
	return j.processes[n]
}

func (p *process) lose(session int, at time.Time) {
	if _, is := p.gone[session]; !is {
		p.gone[session] = at
	}
}

// checkLost allows for one loss, which is the broker's: a classic queue hands its dead letters over without waiting for
// a confirm. One that is on its way when the broker is killed may be in neither queue after it (1 of 8,248 in six kills
// of 4.0.5, decided on 8 ms before). So may one that follows the broker's start before the dead-letter queue has a
// leader (20 of 8,183 in 13 starts of 3.10.8, within half a second; all measured). A quorum queue keeps its own until
// the other has them.
func (j *judge) checkLost(m *message) {
	dropped := j.kind == "classic" && slices.ContainsFunc(m.decided, func(at time.Time) bool {
		return slices.ContainsFunc(j.deaf, func(s span) bool { return !at.Before(s.from) && !at.After(s.to) })
	})
	switch {
	case !m.confirmed || m.handled() || m.dead > 0:
	case dropped:
		j.report.Dropped++
	default:
		j.report.violated("lost", "%s was confirmed and neither handled nor dead-lettered: %s", m.id, m)
	}
}

// checkInnocent checks that a message whose handler always succeeds is not dead-lettered. A crash of it may be counted
// if its process dies at the wrong moment, or if it waits for the store too long. A stop is no reason to count.
func (j *judge) checkInnocent(m *message) {
	if m.do != audit.Succeed && m.do != audit.Slow {
		return
	}
	if m.dead > 0 {
		j.report.violated("innocents", "%s was to %s, and was dead-lettered: %s", m.id, m.do, m)
	}
	if !m.counted {
		return
	}
	j.report.Innocents++
	died := slices.ContainsFunc(slices.Collect(maps.Values(j.processes)), func(p *process) bool {
		return p.died() && len(p.runs) > 0 // else the signal came before the process could heed it
	})
	late := slices.ContainsFunc(m.runs, func(r *run) bool { return r.outcome == audit.TimedOut })
	if of := j.report.FaultsByKind; of["sigterm"] > 0 && len(of) == 1 && !died && !late {
		j.report.violated("innocents", "%s was to %s, and was counted although processes only stopped: %s", m.id, m.do, m)
	}
}

// checkBound checks that a message ran as often as it may, that it did not run again after it was handled with no
// reason, and that it was dead-lettered no earlier than its limit says.
func (j *judge) checkBound(m *message) {
	if len(m.runs) == 0 {
		return
	}
	returned, handled := 0, 0
	for i, r := range m.runs {
		until := j.end
		if i < len(m.runs)-1 {
			until = m.runs[i+1].began
		}
		n := j.returns(r, until)
		returned += n
		if n == 0 && j.inTime(r) {
			handled++
		}
	}
	first, last := m.runs[0].began, m.runs[len(m.runs)-1].began
	copies := max(m.copies, 1)
	// Copies share a limit, but the first delivery of one may begin another, and one may be running when the other
	// reaches the limit. A loss of the store takes back the counts and the shared run, and another run if a START that
	// was already answered SUSPECT then replaces its open attempt.
	losses := len(slices.DeleteFunc(slices.Clone(j.losses), func(at time.Time) bool { return !within(at, first, last) }))
	most := copies*(j.limit+2+copies-1) + losses*(j.limit+2) + returned
	switch {
	case len(m.runs) > most:
		j.report.violated("bound", "%s ran %d times, of %d allowed (%d returns, %d losses of the store, %d copies): %s",
			m.id, len(m.runs), most, returned, losses, m.copies, m)
	case handled > copies:
		j.report.violated("bound", "%s ran again after it was handled: %s", m.id, m)
	case m.dead > 0 && m.do != audit.Reject && len(m.attempts)+j.untold(first, m.given()) < j.limit:
		j.report.violated("bound", "%s was dead-lettered after %d attempts, and its limit is %d: %s", m.id, len(m.attempts),
			j.limit, m)
	}
}

// returns is the number of runs that a run allows beyond the limit, because the message went back to the queue
// uncounted. Until is when the next one began.
func (j *judge) returns(r *run, until time.Time) int {
	_, lost := r.process.gone[r.session]
	died := r.process.died() || r.remote && slices.ContainsFunc(j.endpoint, func(at time.Time) bool {
		return within(at, r.began, until)
	})
	stopped := !r.process.killed && within(r.process.exited, r.began, until)
	switch {
	case r.outcome == audit.OK && (lost || died):
		return 2 // its ack was lost, and the suspicion forgotten
	case lost, stopped, r.uncounted, r.outcome == audit.Cancelled, j.upset(r.began, until), died && j.beside(r):
		return 1
	}
	return 0
}

// inTime reports whether it succeeded, and surely before its deadline. That of a request begins before the endpoint has
// it.
func (j *judge) inTime(r *run) bool {
	margin := unaware
	if r.remote {
		margin = slack
	}
	return r.outcome == audit.OK && r.ended.Sub(r.began) < j.handlerTimeout-margin
}

// beside reports whether an abandoned handler ran beside it, so that the crash of their process was not counted.
func (j *judge) beside(r *run) bool {
	return slices.ContainsFunc(r.process.runs, func(x *run) bool {
		abandoned := x.began.Add(j.handlerTimeout + left - unaware)
		over := cmp.Or(x.ended, j.end)
		return x != r && !x.remote && over.After(abandoned) && over.After(r.began) &&
			cmp.Or(r.process.exited, j.end).After(abandoned)
	})
}

// upset reports whether the broker may have undone settlements that it had taken in between two times.
func (j *judge) upset(from, to time.Time) bool {
	return slices.ContainsFunc(j.upsets, func(s span) bool {
		return !s.to.Before(from.Add(-slack)) && !s.from.After(to)
	})
}

// untold is the number of attempts that may have been counted in a time, though their handler did not begin: their
// process or session ended after it had sent BEGUN, and before it had the reply. Those that are told need no guess.
func (j *judge) untold(from, to time.Time) (n int) {
	if !j.blind {
		return 0
	}
	all := slices.Clone(j.endpoint)
	for _, p := range j.processes {
		all = slices.AppendSeq(append(all, p.exited), maps.Values(p.gone))
	}
	for _, at := range all {
		if within(at, from, to) {
			n++
		}
	}
	return n
}

// within reports whether a time is between two others, as far as clocks tell.
func within(at, from, to time.Time) bool {
	return at.After(from.Add(-slack)) && at.Before(to.Add(slack))
}

// checkOrder checks the order, where it is promised.
func (j *judge) checkOrder() {
	if !j.ordered {
		return
	}
	lanes := map[string][]*message{}
	for _, m := range j.messages {
		if m.confirmed && m.copies == 1 { // else its runs cannot be told from those of the other copy
			lanes[m.lane] = append(lanes[m.lane], m)
		}
	}
	for _, lane := range lanes {
		slices.SortFunc(lane, func(a, b *message) int { return cmp.Compare(a.seq, b.seq) })
		var before *message // the one among those before that was done last
		for _, m := range lane {
			for _, r := range m.runs {
				gone, lost := r.process.gone[r.session]
				unaware := lost && !r.began.Before(gone)
				if before != nil && r.began.Before(j.done(before)) && !unaware {
					j.report.violated("order", "%s was handled before %s was done: %s, before %s", m.id, before.id, m, before)
					break
				}
			}
			if before == nil || j.done(m).After(j.done(before)) {
				before = m
			}
		}
	}
}

// done is when a message was first handled or dead-lettered. A process that is killed has no time to write down that it
// dead-letters one; the last run had ended then.
func (j *judge) done(m *message) time.Time {
	var all []time.Time
	for _, r := range m.runs {
		if r.outcome == audit.OK {
			all = append(all, r.ended)
		}
	}
	all = append(all, m.decided...)
	if len(all) == 0 && m.dead > 0 && len(m.runs) > 0 {
		last := m.runs[len(m.runs)-1]
		all = append(all, cmp.Or(last.ended, last.began))
	}
	if len(all) == 0 {
		return never
	}
	return slices.MinFunc(all, time.Time.Compare)
}

// checkDrained checks that the queue was drained in time.
func (j *judge) checkDrained() {
	took := j.drained.Sub(j.quiet)
	switch {
	case j.quiet.IsZero() || j.drained.IsZero():
		if j.report.Violations["drained"].Count == 0 {
			j.report.violated("drained", "the queue was never seen drained")
		}
	case took > j.drainWithin:
		j.report.violated("drained", "it took %v to drain the queue, and may take %v", took, j.drainWithin)
		fallthrough
	default:
		j.report.DrainSeconds = seconds(took)
	}
}

// String tells the story of a message, for a person.
func (m *message) String() string {
	parts := []string{fmt.Sprintf("to %s, %d copies", m.do, m.copies)}
	for _, r := range m.runs {
		how := cmp.Or(r.outcome, "did not end")
		if _, lost := r.process.gone[r.session]; lost {
			how += ", session lost"
		}
		if r.process.died() {
			how += ", process died"
		}
		parts = append(parts, "ran at "+r.began.Format("15:04:05.000")+": "+how)
	}
	if m.dead > 0 {
		parts = append(parts, fmt.Sprintf("%d dead letters", m.dead))
	}
	return strings.Join(parts, "; ")
}
