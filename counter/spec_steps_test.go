package counter

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

// stepsCase is a case of spec/v1/steps.json.
type stepsCase struct {
	Name, Why string
	Operators bool
	Moves     bool // a step is one of a consumer that moves messages
	Breaker   bool // the same, of one that has a breaker
	TTL       int64
	Given     specGiven
	Steps     []specStep
	After     specAfter
}

type specGiven struct {
	Records    []specRecord
	Override   map[string]string
	Tombstones map[string]int64
	Pause      *specPause
	Skips      []specSkip
	Types      map[string]string
	Breaker    *specBreaker
}

// specBreaker is the breaker of the queue. Times are ms; nil is 0.
type specBreaker struct {
	Success, Doubt, Open, Closed, Next, Count, Awaited *int64
	Permits, Alike                                     int
	Reason                                             specText
	Streak                                             []struct {
		At int64
		ID specText
	}
}

// at is the breaker with times relative to begin.
func (s specBreaker) at(begin int64) rules.Breaker {
	b := rules.Breaker{Permits: s.Permits, Alike: s.Alike, Reason: string(s.Reason)}
	into := breakerTimes(&b)
	for i, ms := range []*int64{s.Success, s.Doubt, s.Open, s.Closed, s.Next, s.Count, s.Awaited} {
		if ms != nil {
			*into[i] = time.UnixMilli(*ms + begin).UTC()
		}
	}
	for _, f := range s.Streak {
		hash, _, _ := strings.Cut(member(string(f.ID), ""), ":")
		b.Streak = append(b.Streak, rules.StreakFailure{At: time.UnixMilli(f.At + begin).UTC(), Message: hash[:16]})
	}
	return b
}

func breakerTimes(b *rules.Breaker) []*time.Time {
	times := []*time.Time{&b.Success, &b.Doubt, &b.Open, &b.Closed, &b.Next, &b.Count, &b.Awaited}
	for i := range b.Streak {
		times = append(times, &b.Streak[i].At)
	}
	return times
}

type specPause struct {
	Paused  bool
	By, Why string
	At      int64
}

type specSkip struct {
	ID         specText `json:"id"`
	Generation specText `json:"generation"`
	Until      int64    `json:"until,omitempty"`
}

type specStep struct {
	Step            string
	ID, Generation  *specText
	Together        bool
	Token, Consumer string
	Limit           int
	Age             int64
	Mode            string
	Fence           int64
	Wait            int64
	Cause           string
	Reason          specText
	Ran             int64
	Succeeded       bool
	Keep            int64
	Attempts        int
	By, Why         string
	MaxRetries      string          `json:"max_retries"`
	MaxAge          json.RawMessage `json:"max_age"` // ms; of LIMIT a text
	AtMost          *int            `json:"at_most"`
	Paused          bool
	Reader, State   string
	Delay           string
	Progress        string
	Wants           bool
	Count           int64 // of RESUME
	CopyNumber      int64 `json:"copy_number"` // of MOVED
	Reply           json.RawMessage
}

type specReply struct {
	Code       string   `json:"code"`
	Failures   int      `json:"failures"`
	Crashes    int      `json:"crashes"`
	Limit      int      `json:"limit"`
	Fence      any      `json:"fence"`
	Wait       int64    `json:"wait"`
	Cause      *string  `json:"cause"`
	Reason     specText `json:"reason"`
	Double     bool     `json:"double"`
	CopyNumber int64    `json:"copy_number"`
	Error      string   `json:"error"`
}

type specControl struct {
	Paused  bool
	By, Why string
	At      *int64
	Skips   []specSkip
}

type specAfter struct {
	Records    []specRecord
	Tombstones *struct{ Count, Removed int64 }
	Breaker    *specBreaker
}

// specRun is one run of a case: a store of its own, and the differences from the case.
type specRun struct {
	*Counter
	t      *testing.T
	of     stepsCase
	begin  int64 // the store's time before anything was written
	clocks map[Message][]int64
	wrong  []string
}

func TestSpecSteps(t *testing.T) {
	for _, s := range stores(t) {
		for _, tc := range servertest.SpecCases[stepsCase](t, "steps.json") {
			t.Run(tc.Name, func(t *testing.T) {
				for _, wrong := range runSteps(t, s, tc) {
					t.Errorf("%s: %s (%s): %s", s.name, tc.Name, tc.Why, wrong)
				}
			})
		}
	}
}

// runSteps returns the differences from the case.
func runSteps(t *testing.T, on store, tc stepsCase) []string {
	t.Helper()
	r := &specRun{t: t, of: tc, clocks: map[Message][]int64{}}
	r.Counter = on.open(t, &Options{TTL: time.Duration(tc.TTL) * time.Millisecond})
	if r.rdb == nil && tc.hasTypes() {
		return nil
	}
	r.begin = r.now()
	r.seed()
	for i := 0; i < len(tc.Steps); {
		end := i + 1
		for end < len(tc.Steps) && tc.Steps[end].Together {
			end++
		}
		r.take(i, tc.Steps[i:end])
		i = end
	}
	r.checkRecords()
	r.checkTombstones()
	r.checkBreaker()
	return r.wrong
}

// hasTypes reports whether the case is one of Redis: of keys that have another type.
func (tc stepsCase) hasTypes() bool {
	return len(tc.Given.Types) > 0 ||
		slices.ContainsFunc(tc.Given.Records, func(r specRecord) bool { return r.Type != "" })
}

var specQueue = Queue{"/", "orders"}

// load reads a document. For "" it is the store's time alone.
func (r *specRun) load(name string) (time.Time, Doc) {
	r.t.Helper()
	now, docs, err := r.store.Load(context.Background(), specQueue, strings.Fields(name)...)
	need(r.t, err)
	return now, append(docs, Doc{})[0]
}

func (r *specRun) now() int64 {
	now, _ := r.load("")
	return now.UnixMilli()
}

func (r *specRun) key(name string) string { return r.opts.queueKey("/", "orders") + name }

func (r *specRun) seed() {
	g, all := r.of.Given, Change{}
	ttl := r.opts.TTL.Milliseconds()
	keep := func(name, data string, ttl int64) {
		d := Doc{Name: name, Data: data, Any: true}
		if ttl > 0 {
			d.Expires = time.UnixMilli(r.begin + ttl)
		}
		all.Docs = append(all.Docs, d)
	}
	list := func(set, member string, at int64) {
		all.Sets = append(all.Sets, Member{Set: set, Name: member, Score: at, Expires: time.UnixMilli(r.begin + 2*ttl)})
	}
	for _, given := range g.Records {
		entry := member(given.message().ID, given.message().Generation)
		name := docRecord(entry)
		switch {
		case given.Type == "list":
			mustDo(r.t, r.rdb, "rpush", r.key(name), "x")
		case given.String != nil:
			keep(name, string(*given.String), ttl)
		default:
			keep(name, rules.Encode(given.record(r.begin)), given.TTL)
			if given.Listed != nil {
				list(map[bool]string{true: setDead, false: setIndex}[given.State == "exhausted"], entry, r.begin+given.TTL)
			}
		}
	}
	if len(g.Override) > 0 {
		keep(docLimit, encodeFields(g.Override), 0)
	}
	if len(g.Tombstones) > 0 {
		fields := map[string]string{}
		for field, value := range g.Tombstones {
			if field == "since" {
				value += r.begin
			}
			fields[field] = decimal(value)
		}
		keep(docTombstones, encodeFields(fields), 0)
	}
	if p := g.Pause; p != nil {
		keep(docPause, encodeFields(map[string]string{"paused": decimal(int64(rules.Flag(p.Paused))), "by": p.By,
			"at": decimal(p.At + r.begin), "why": p.Why}), 0)
	}
	for _, s := range g.Skips {
		list(setSkips, member(string(s.ID), string(s.Generation)), s.Until+r.begin)
	}
	if g.Breaker != nil {
		keep(docBreaker, rules.EncodeBreaker(g.Breaker.at(r.begin)), ttl)
	}
	for name := range g.Types {
		mustDo(r.t, r.rdb, "rpush", r.key(name), "x")
	}
	if all.isEmpty() {
		return
	}
	need(r.t, errOf(r.store.Save(r.t.Context(), specQueue, all)))
}

func (r specRecord) message() Message { return messageOf(&r.ID, &r.Generation) }

func messageOf(id, generation *specText) Message {
	m := Message{VHost: "/", Queue: "orders", ID: "m1"}
	if id != nil {
		m.ID = string(*id)
	}
	if generation != nil {
		m.Generation = string(*generation)
	}
	return m
}

// take takes steps in one call, and compares their replies.
func (r *specRun) take(at int, steps []specStep) {
	switch s := steps[0]; {
	case s.Step == "CONTROL":
		r.control(at, s)
	case s.Step == "LIMIT" || s.Step == "PAUSE" || s.Step == "ASK" || s.Step == "RESUME":
		r.operate(at, s)
	case len(steps) == 1 || r.rdb == nil:
		for i, s := range steps {
			reply, err := r.one(s)
			r.compare(at+i, s, reply, err)
		}
	default:
		requests := make([]*request, len(steps))
		for i, s := range steps {
			requests[i] = s.request()
		}
		replies, err := r.rdb.Do(r.t.Context(), r.command(requests)...).Slice()
		for i, s := range steps {
			var reply Reply
			each := err
			if err == nil {
				if each, _ = replies[i].(error); each == nil {
					reply, each = parseReply(replies[i])
				}
			}
			r.compare(at+i, s, reply, each)
		}
	}
}

func (s specStep) attempt() Attempt {
	return Attempt{
		Message: messageOf(s.ID, s.Generation), Token: s.Token, Consumer: s.Consumer, Fence: s.Fence,
		MaxAge: time.Duration(number(string(s.MaxAge))) * time.Millisecond, Delay: s.delay(), First: s.Age >= 0,
		Progress: s.progress(), Received: time.Now().Add(-time.Duration(s.Age) * time.Millisecond),
	}
}

// delay reads the argument of delay queues.
func (s specStep) delay() (l rules.Delay) {
	if w := strings.Fields(s.Delay); len(w) == 5 {
		l = rules.Delay{CopyNumber: number(w[1]), Above: time.Duration(number(w[2])) * time.Millisecond,
			Lease: time.Duration(number(w[3])) * time.Millisecond, Body: w[4]}
	}
	return l
}

// progress reads the argument of a breaker.
func (s specStep) progress() (p rules.Progress) {
	w := strings.Fields(s.Progress)
	if len(w) != 7 {
		return p
	}
	now := time.Now()
	for i, at := range []*time.Time{&p.Began, &p.Ended, &p.Attempt} {
		if ms := w[3+i]; ms != "-1" {
			*at = now.Add(-time.Duration(number(ms)) * time.Millisecond)
		}
	}
	p.Breaker, p.Patience = int(number(w[1])), time.Duration(number(w[2]))*time.Millisecond
	p.Failing = w[6] == "1"
	return p
}

// request is the step as the pipeline sends it.
func (s specStep) request() *request {
	if s.Step != "FAIL" {
		panic("only FAIL is sent together")
	}
	a := s.attempt()
	args := []any{a.Token, a.ID, a.Generation, a.Consumer, s.Limit, ageOf(a), s.Wait, s.Cause, string(s.Reason), s.Ran}
	if s.AtMost != nil { // else as a consumer that does not know it
		args = append(args, string(s.MaxAge), *s.AtMost)
	}
	return &request{script: script{"eval", stepFail.source}, message: a.Message, args: args}
}

var specModes = map[string]rules.Mode{"shared": rules.ModeShared, "isolated": rules.ModeIsolated,
	"untracked": rules.ModeUntracked, "beside-abandoned": rules.ModeBesideAbandoned}

func (r *specRun) one(s specStep) (Reply, error) {
	ctx, a := r.t.Context(), s.attempt()
	note := Note{By: s.By, Why: s.Why}
	by := func(take rule) (Reply, error) { return r.change(ctx, s.Step, a.Message, take) }
	switch s.Step {
	case "START":
		return r.Start(ctx, a, specModes[s.Mode], s.Limit)
	case "FAIL":
		atMost := 0
		if s.AtMost != nil {
			atMost = *s.AtMost
		}
		return r.Fail(ctx, a, Failure{
			AtMost: atMost, Limit: s.Limit, Wait: time.Duration(s.Wait) * time.Millisecond, Cause: Cause(s.Cause),
			Reason: string(s.Reason), Ran: time.Duration(s.Ran) * time.Millisecond,
		})
	case "END":
		return r.Counter.take(ctx, stepEnd, a, func(of *Record, q *rules.Queue, a Attempt, now time.Time) (Reply,
			time.Duration) {
			return rules.End(of, q, a, s.Succeeded, now)
		}, 0, rules.Flag(s.Succeeded), s.Keep)
	case "BEGUN":
		return r.Begun(ctx, a)
	case "MOVED":
		return by(func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
			return rules.Moved(r, q, s.CopyNumber, now)
		})
	case "OWN":
		return by(func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
			return rules.Limit(r, q, s.Attempts, now)
		})
	case "RESET":
		return by(func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
			return rules.Reset(r, q, note, now)
		})
	case "SKIP":
		return by(func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
			return rules.Skip(r, q, note, now)
		})
	case "REMOVED":
		return by(rules.Remove)
	}
	r.t.Fatalf("%s: unknown step %q", r.of.Name, s.Step)
	return Reply{}, nil
}

func (r *specRun) compare(at int, s specStep, reply Reply, err error) {
	var want specReply
	if e := decodeSpec(s.Reply, &want); e != nil {
		r.differ("step %d: its reply cannot be read: %v", at+1, e)
		return
	}
	if err != nil || want.Error != "" {
		if err == nil || want.Error == "" || !strings.Contains(err.Error(), want.Error) {
			r.differ("step %d: error %v, want %q", at+1, err, want.Error)
		}
		return
	}
	got := specReply{
		Code: reply.Code.String(), Failures: reply.Failures, Crashes: reply.Crashes, Limit: reply.Limit,
		Fence: float64(reply.Fence),
		Wait:  reply.Wait.Milliseconds(), Reason: specText(reply.Reason), Double: reply.PossibleDuplicate,
		CopyNumber: reply.CopyNumber,
	}
	if reply.Cause != "" {
		got.Cause = new(string(reply.Cause))
	}
	got.Fence = r.fence(messageOf(s.ID, s.Generation), want.Fence, reply.Fence)
	if passed := r.now() - r.begin; got.Wait <= want.Wait && got.Wait >= want.Wait-passed && got.Wait > 0 {
		got.Wait = want.Wait
	}
	if diff := cmp.Diff(want, got); diff != "" {
		r.differ("step %d: the reply differs:\n%s", at+1, diff)
	}
}

// fence returns want if got matches it: an integer, or the Nth fence that the clock gave the message in this case.
func (r *specRun) fence(m Message, want any, got int64) any {
	if _, isClock := want.(string); !isClock {
		return float64(got)
	}
	known := r.clocks[m]
	n := slices.Index(known, got)
	if n < 0 && got/1000 >= r.begin && got/1000 <= r.now() && (len(known) == 0 || got > known[len(known)-1]) {
		r.clocks[m], n = append(known, got), len(known)
	}
	return fmt.Sprint("clock ", n+1)
}

func (r *specRun) differ(format string, args ...any) {
	r.wrong = append(r.wrong, fmt.Sprintf(format, args...))
}

// control compares the requests of operators.
func (r *specRun) control(at int, s specStep) {
	var want specControl
	if err := decodeSpec(s.Reply, &want); err != nil {
		r.differ("step %d: its reply cannot be read: %v", at+1, err)
		return
	}
	got, err := r.Control(r.t.Context(), "/", "orders", Reader{Token: s.Reader, Consumer: s.Consumer,
		Breaker: s.State == "breaker", Stopped: s.State == "stopped", Left: s.State == "left"})
	skips := map[string]bool{}
	for _, skip := range want.Skips {
		skips[member(string(skip.ID), string(skip.Generation))] = true
	}
	note := Note{By: want.By, Why: want.Why}
	if want.At != nil && r.within(*want.At, got.Note.At.UnixMilli()) || want.At == nil && got.Note.At.IsZero() {
		note.At = got.Note.At
	}
	if err != nil || got.Paused != want.Paused || got.Note != note || !cmp.Equal(skips, got.skips) && len(skips)+
		len(got.skips) > 0 {
		r.differ("step %d: got %+v, %v, want %+v", at+1, got, err, want)
	}
}

// operate takes a step that is not of one message. Its reply is 1, or 0 if nothing was done.
func (r *specRun) operate(at int, s specStep) {
	admin, note, nothing := r.Admin(), Note{By: s.By, Why: s.Why}, false // whether the step did nothing
	var err error
	switch {
	case s.Step == "PAUSE" && s.Paused:
		err = admin.Pause(r.t.Context(), "/", "orders", note)
	case s.Step == "PAUSE":
		err = admin.Resume(r.t.Context(), "/", "orders", note)
	case s.Step == "RESUME":
		var resumed bool
		resumed, err = admin.ResumeBreaker(r.t.Context(), "/", "orders", time.Duration(s.Count)*time.Millisecond)
		nothing = !resumed
	case s.Step == "ASK":
		var b BreakerState
		p := s.progress()
		p.Wants = s.Wants
		b, err = r.AskBreaker(r.t.Context(), "/", "orders", p)
		nothing = !b.Permitted
	default:
		o := Override{Note: note}
		if s.MaxRetries != "" {
			o.MaxRetries = new(int(number(s.MaxRetries)))
		}
		if age, _ := strconv.Unquote(string(s.MaxAge)); age != "" {
			o.MaxAge = new(time.Duration(number(age)) * time.Millisecond)
		}
		err = admin.SetLimit(r.t.Context(), "/", "orders", o)
	}
	done := "1"
	if errors.Is(err, ErrPaused) || errors.Is(err, ErrNotPaused) || errors.Is(err, errNoOverride) {
		err, nothing = nil, true
	}
	if nothing {
		done = "0"
	}
	if err != nil || done != string(s.Reply) {
		r.differ("step %d: got %s, %v, want %s", at+1, done, err, s.Reply)
	}
}

// within reports whether a time by the store is the wanted one, or as much later as the case has run.
func (r *specRun) within(want, got int64) bool {
	return got >= r.begin+want && got <= r.now()+want
}

// checkRecords compares every record that the case names.
func (r *specRun) checkRecords() {
	want := map[Message]specRecord{}
	for _, record := range r.of.After.Records {
		want[record.message()] = record
	}
	named := []Message{}
	for _, given := range r.of.Given.Records {
		named = append(named, given.message())
	}
	for _, s := range r.of.Steps {
		named = append(named, messageOf(s.ID, s.Generation))
	}
	slices.SortFunc(named, func(a, b Message) int {
		return strings.Compare(a.ID+"\x00"+a.Generation, b.ID+"\x00"+b.Generation)
	})
	for _, m := range slices.Compact(named) {
		record, expected := want[m]
		r.checkRecord(m, record, expected)
		delete(want, m)
	}
	for m := range want {
		r.differ("the case names no step or record of %q, %q", m.ID, m.Generation)
	}
}

func (r *specRun) checkRecord(m Message, want specRecord, expected bool) {
	at, d := r.load(docRecord(member(m.ID, m.Generation)))
	kind, text := "string", d.Data
	switch {
	case d.Err != nil:
		kind = "list"
	case text == "":
		kind = "none"
	}
	switch {
	case kind == "none" || !expected:
		if expected != (kind != "none") {
			r.differ("record of %q: it is a %s, want one: %v", m.ID, kind, expected)
		}
		return
	case want.Type != "" || want.String != nil:
		if want.Type != "" && kind != want.Type || want.String != nil && text != string(*want.String) {
			r.differ("record of %q: a %s %q", m.ID, kind, text)
		}
		return
	}
	got, _ := parseRecord(Queue{"/", "orders"}, text)
	wanted := want.record(r.begin)
	passed := time.Duration(r.now()-r.begin) * time.Millisecond
	align(timesOf(&got), timesOf(&wanted), 0, passed)
	if fence := r.fence(m, want.Fence, got.Fence); fence == want.Fence {
		wanted.Fence = got.Fence
	}
	late := time.Duration(want.TTL)*time.Millisecond - d.Expires.Sub(at.Truncate(time.Millisecond))
	if diff := cmp.Diff(wanted, got); diff != "" || r.setOf(m) != want.Set || late < 0 || late > passed {
		r.differ("record of %q, in %q, expires %v early:\n%s", m.ID, r.setOf(m), late, diff)
	}
}

// timesOf are the fields that hold a time.
func timesOf(r *Record) []*time.Time {
	times := []*time.Time{&r.Binds, &r.Due, &r.FirstTime, &r.LastTime, &r.OpenSince, &r.Listed, &r.Move.Until, &r.Reset.At,
		&r.Skipped.At, &r.Removed}
	for i := range r.History {
		times = append(times, &r.History[i].At)
	}
	return times
}

// align replaces each time that is as early or late as the case allows by the wanted one.
func align(got, want []*time.Time, early, late time.Duration) {
	for i := range min(len(got), len(want)) {
		d := got[i].Sub(*want[i])
		if !got[i].IsZero() && !want[i].IsZero() && d >= -early && d <= late {
			*got[i] = *want[i]
		}
	}
}

// setOf names the sorted sets that have a record.
func (r *specRun) setOf(m Message) string {
	var in []string
	for _, set := range []string{setIndex, setDead} {
		if r.isIn(r.t, specQueue, set, member(m.ID, m.Generation), 0) {
			in = append(in, set)
		}
	}
	return strings.Join(in, " and ")
}

func (r *specRun) checkTombstones() {
	if want := r.of.After.Tombstones; want != nil {
		_, d := r.load(docTombstones)
		if got := tombstonesOf(decodeFields(d.Data)); d.Err != nil || got.Count != want.Count || got.Removed != want.Removed {
			r.differ("tombstones: %+v, %v, want %+v", got, d.Err, *want)
		}
	}
}

// checkBreaker compares the breaker. The success may be earlier by the time that a step is under way.
func (r *specRun) checkBreaker() {
	if r.of.After.Breaker == nil {
		return
	}
	_, d := r.load(docBreaker)
	got, ok := rules.DecodeBreaker(d.Data)
	if !ok {
		r.differ("breaker: %q, %v", d.Data, d.Err)
		return
	}
	want, passed := r.of.After.Breaker.at(r.begin), time.Duration(r.now()-r.begin)*time.Millisecond
	times, wanted := breakerTimes(&got), breakerTimes(&want)
	align(times[:1], wanted[:1], 100*time.Millisecond, passed)
	align(times[1:], wanted[1:], 0, passed)
	if diff := cmp.Diff(want, got); diff != "" {
		r.differ("breaker:\n%s", diff)
	}
}
