package counter

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	"pgregory.net/rapid"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestModel takes the same random steps on every store and compares them with each other and with the changes that a
// step may make. For a long run: go test ./counter -run Model -rapid.checks=2000 -rapid.steps=50.
func TestModel(t *testing.T) {
	servertest.Long(t)
	all := storesForLong(t)
	var runs atomic.Int64
	rapid.Check(t, func(t *rapid.T) {
		w := newWorld(all, runs.Add(1))
		t.Repeat(w.actions())
		w.forget(t)
	})
}

// actions are the steps, and the other events between them.
func (w *world) actions() map[string]func(*rapid.T) {
	return map[string]func(*rapid.T){
		"start": w.step(drawStart),
		"begun": w.step(drawBegun),
		"fail":  w.step(drawFail),
		"end":   w.step(drawEnd),
		"moved": w.step(drawMoved),
		"own":   w.step(drawOwn),
		"reset": w.step(drawReset),
		"skip":  w.step(drawSkip),
		"taken": w.step(drawTaken),
		"limit": w.setLimit,
		"later": w.later,
		"back":  w.setBack,
		"again": w.again,
		"crash": w.crash,
		"aged":  w.grow,
	}
}

// world is a queue with a few messages, on every store.
type world struct {
	stores   []store
	messages []Message
	began    time.Time
	aged     int
	back     time.Duration // by which the clocks were set back
	override *Override

	fixed *Attempt // of the next step: its message and token; nil: both are drawn
	last  *taken
	take  takes // the last step
}

func newWorld(all []store, run int64) *world {
	q := "q" + strconv.FormatInt(run, 10)
	return &world{stores: all, began: time.Now(), messages: []Message{
		{VHost: "/", Queue: q, ID: "one"},
		{VHost: "/", Queue: q, ID: "one", Generation: "0"},
		{VHost: "/", Queue: q, ID: "\x00 two {/} \xff"},
	}}
}

// taken is a step and its result on one store.
type taken struct {
	Attempt
	step          string
	mode          rules.Mode
	limit         int
	override      *Override
	back          time.Duration // by which the clocks were set back
	reply         Reply
	before, after sight
}

// takes takes a step on one store.
type takes func(ctx context.Context, s store) (Reply, error)

// draws decides on a step.
type draws func(t *rapid.T, did *taken) takes

var (
	fewTokens  = rapid.SampledFrom([]string{"a", "b", "c", "d", "e", "a-1", "1_a"})
	manyTokens = rapid.StringMatching("[a-c][0-9]")
	tokens     = rapid.OneOf(fewTokens, fewTokens, fewTokens, manyTokens)
	modes      = rapid.SampledFrom([]rules.Mode{rules.ModeShared, rules.ModeIsolated, rules.ModeUntracked,
		rules.ModeBesideAbandoned})
	waits   = rapid.SampledFrom([]time.Duration{-time.Second, 0, 0, time.Minute, 5 * time.Minute, 7 * time.Hour})
	fences  = rapid.SampledFrom([]int64{0, 0, 0, 1, inOneDay})
	reasons = rapid.SampledFrom([]string{"", "0", "boom", "a\nb\x00\xff", "\u00e9 \u2028", "\r\n\tboom\tc\r",
		strings.Repeat("\u00e9", 100), strings.Repeat("x", 120)})
	consumers = rapid.SampledFrom([]string{"", "0", "host, pid 1", "a\nf0\t1\tb\r", strings.Repeat("h", 200)})
	// never as much as may have passed
	maxAges = rapid.SampledFrom([]time.Duration{0, 0, 0, 55 * time.Second, 9*time.Minute + 55*time.Second, 48*time.Hour +
		55*time.Second})
	runs = rapid.SampledFrom([]time.Duration{-1, 0, 1500 * time.Microsecond, time.Hour})
)

func drawStart(t *rapid.T, did *taken) takes {
	did.step, did.mode, did.limit = "start", modes.Draw(t, "mode"), rapid.IntRange(1, 4).Draw(t, "limit")
	did.Fence = fences.Draw(t, "fence")
	return func(ctx context.Context, s store) (Reply, error) {
		return s.Start(ctx, did.Attempt, did.mode, did.limit)
	}
}

func drawBegun(_ *rapid.T, did *taken) takes {
	did.step = "begun"
	return func(ctx context.Context, s store) (Reply, error) { return s.Begun(ctx, did.Attempt) }
}

var causesOfFail = rapid.SampledFrom([]Cause{"", CauseFailed, CausePanicked, CauseTimedOut, CauseRejected,
	CauseCrashed})

func drawFail(t *rapid.T, did *taken) takes {
	f := Failure{Cause: causesOfFail.Draw(t, "cause"), Limit: rapid.IntRange(0, 4).Draw(t, "limit"), Wait: waits.Draw(t,
		"wait"), Reason: reasons.Draw(t, "reason"), Ran: runs.Draw(t, "ran")}
	f.AtMost = rapid.SampledFrom([]int{0, 0, 1, 2, 9}).Draw(t, "at most")
	did.step, did.limit = "fail", f.Limit
	return func(ctx context.Context, s store) (Reply, error) { return s.Fail(ctx, did.Attempt, f) }
}

func drawEnd(t *rapid.T, did *taken) takes {
	did.step = "end"
	succeeded := rapid.Bool().Draw(t, "succeeded")
	return func(ctx context.Context, s store) (Reply, error) {
		return Reply{}, s.End(ctx, did.Attempt, succeeded)
	}
}

func drawMoved(t *rapid.T, did *taken) takes {
	did.step = "moved"
	copyNumber := copyNumbers.Draw(t, "confirmed")
	return func(ctx context.Context, s store) (Reply, error) {
		return Reply{}, s.Moved(ctx, did.Attempt, copyNumber)
	}
}

var (
	copyNumbers = rapid.SampledFrom([]int64{0, 0, 0, 1, 1, 2, 3, rules.MaxCopyNumber})
	bodies      = rapid.SampledFrom([]string{"a1", "a1", "a1", "a1", "b2"})
)

// drawDelay draws a Delay for four of five steps. A step without one makes the body of a move unknown, so few have
// none.
func drawDelay(t *rapid.T) rules.Delay {
	if rapid.IntRange(0, 4).Draw(t, "no delay queues") == 0 {
		return rules.Delay{}
	}
	return rules.Delay{
		CopyNumber: copyNumbers.Draw(t, "copy number"), Body: bodies.Draw(t, "body"),
		Above: rapid.SampledFrom([]time.Duration{0, time.Minute,
			4 * time.Minute}).Draw(t, "above"),
		Lease: rapid.SampledFrom([]time.Duration{0, 2 * time.Minute, 100 * time.Hour}).Draw(t, "lease"),
	}
}

var notes = rapid.SampledFrom([]Note{{By: "op@host", Why: "supplier down"}, {Why: "\x1b[2J"}, {By: "0", Why: "0"}})

func drawOwn(t *rapid.T, did *taken) takes {
	did.step = "own"
	attempts, n := rapid.IntRange(0, 5).Draw(t, "attempts"), notes.Draw(t, "note")
	return func(ctx context.Context, s store) (Reply, error) {
		return refused(rules.ReplyLimited, s.LimitMessage(ctx, did.Message, attempts, n))
	}
}

func drawReset(t *rapid.T, did *taken) takes {
	did.step = "reset"
	n := notes.Draw(t, "note")
	return func(ctx context.Context, s store) (Reply, error) {
		return refused(rules.ReplyReset, s.Reset(ctx, did.Message, n))
	}
}

func drawSkip(t *rapid.T, did *taken) takes {
	did.step = "skip"
	n := notes.Draw(t, "note")
	return func(ctx context.Context, s store) (Reply, error) {
		return refused(rules.ReplySkipped, errOf(s.Skip(ctx, did.Message, n)))
	}
}

func drawTaken(_ *rapid.T, did *taken) takes {
	did.step = "taken"
	return func(ctx context.Context, s store) (Reply, error) {
		return Reply{}, s.NoteRemoved(ctx, did.VHost, did.Queue, []Message{did.Message})
	}
}

// refused makes an operator's refusal a reply, so that the stores must agree on it.
func refused(done rules.ReplyCode, err error) (Reply, error) {
	switch {
	case errors.Is(err, ErrNoRecord):
		return Reply{Code: rules.ReplyNone}, nil
	case errors.Is(err, ErrOver):
		return Reply{Code: rules.ReplyOver}, nil
	}
	return Reply{Code: done}, err
}

// setLimit sets or clears the queue's override.
func (w *world) setLimit(t *rapid.T) {
	retries := rapid.IntRange(-1, 4).Draw(t, "retries")
	ctx, vhost, queue := context.Background(), w.messages[0].VHost, w.messages[0].Queue
	w.override = nil
	if retries >= 0 {
		w.override = &Override{MaxRetries: new(retries), Note: notes.Draw(t, "note")}
	}
	if rapid.Bool().Draw(t, "with an age") {
		if w.override == nil {
			w.override = &Override{Note: notes.Draw(t, "note")}
		}
		w.override.MaxAge = new(maxAges.Draw(t, "age"))
	}
	for _, s := range w.stores {
		_, err := s.ClearLimit(ctx, vhost, queue)
		if err == nil && w.override != nil {
			err = s.SetLimit(ctx, vhost, queue, *w.override)
		}
		needOf(t, s.name, err)
		got, err := s.Limit(ctx, vhost, queue)
		needOf(t, s.name, err)
		if got != nil {
			if time.Since(got.At).Abs() > time.Minute {
				t.Fatalf("%s: set at %v", s.name, got.At)
			}
			got.At = time.Time{}
		}
		w.same(t, s.name+": override", w.override, got)
	}
}

func (w *world) step(draw draws) func(*rapid.T) {
	return func(t *rapid.T) {
		did := taken{Attempt: Attempt{
			Message: rapid.SampledFrom(w.messages).Draw(t, "message"), Token: tokens.Draw(t, "token"),
			Consumer: consumers.Draw(t, "consumer"), First: rapid.Bool().Draw(t, "first"), MaxAge: maxAges.Draw(t, "max age"),
			Delay: drawDelay(t), HoldsQueue: rapid.IntRange(0, 2).Draw(t, "holds the queue") == 0,
		}}
		if w.fixed != nil {
			did.Message, did.Token = w.fixed.Message, w.fixed.Token
		}
		take := draw(t, &did)
		w.last, w.take = new(did), take
		w.compare(t, did, take)
	}
}

// compare takes a step on every store, and compares the results.
func (w *world) compare(t *rapid.T, did taken, take takes) {
	did.override, did.back = w.override, w.back
	var model taken
	for i, s := range w.stores {
		did.before = s.look(t, did.Message)
		var err error
		if did.reply, err = take(context.Background(), s); err != nil {
			t.Fatalf("%s: %v", s.name, err)
		}
		did.after = s.look(t, did.Message)
		did.check(t, s.name)
		if s.name != "memory" {
			did.checkKeys(t, s.name)
		}
		if i == 0 {
			model = did
			continue
		}
		w.same(t, s.name+": reply", model.reply, did.reply)
		w.same(t, s.name+": record", model.after.Record, did.after.Record)
		w.same(t, s.name+": tombstones", model.after.tombstones, did.after.tombstones)
	}
}

// again repeats the last step, as if its reply was lost.
func (w *world) again(t *rapid.T) {
	if w.take == nil {
		t.Skip("nothing was done")
	}
	w.compare(t, *w.last, w.take)
}

// crash opens an isolated attempt, and finds it open. Then it may end or fail late.
func (w *world) crash(t *rapid.T) {
	dead := Attempt{Message: rapid.SampledFrom(w.messages).Draw(t, "message"), Token: tokens.Draw(t, "dead")}
	next := Attempt{Message: dead.Message, Token: tokens.Draw(t, "next")}
	w.with(t, dead, drawIsolated, drawBegun)
	w.with(t, next, drawIsolated)
	w.with(t, dead, rapid.SampledFrom([]draws{drawEnd, drawFail}).Draw(t, "late"))
}

// grow fails a message twice, a minute apart: it may be too old then.
func (w *world) grow(t *rapid.T) {
	m := rapid.SampledFrom(w.messages).Draw(t, "message")
	w.with(t, Attempt{Message: m, Token: "g1"}, drawFail)
	w.later(t)
	w.with(t, Attempt{Message: m, Token: "g2"}, drawFail)
	w.with(t, Attempt{Message: m, Token: "g3"}, drawStart)
}

// with takes steps of one attempt.
func (w *world) with(t *rapid.T, a Attempt, all ...draws) {
	w.fixed = &a
	defer func() { w.fixed = nil }()
	for _, draw := range all {
		w.step(draw)(t)
	}
}

func drawIsolated(t *rapid.T, did *taken) takes {
	take := drawStart(t, did)
	did.mode = rules.ModeIsolated
	return take
}

// later lets time pass. Waits and the like are whole minutes and each of these is a second over, so that no boundary is
// so near that the clocks of the stores could differ on it.
func (w *world) later(t *rapid.T) {
	if w.aged++; w.aged+int(time.Since(w.began).Seconds()) > 45 {
		t.Skip("nearly a minute over")
	}
	w.pass(t, time.Second+time.Minute*time.Duration(rapid.SampledFrom([]int{0, 0, 1, 3, 9, 60, 24 * 60, 6 * 24 * 60,
		8 * 24 * 60}).Draw(t, "minutes")))
}

// pass makes everything that the stores keep older.
func (w *world) pass(t *rapid.T, d time.Duration) {
	for i, s := range w.stores {
		s.age(t, d, w.messages...)
		for _, m := range w.messages {
			if i > 0 {
				w.same(t, s.name+": record", w.stores[0].look(t, m).Record, s.look(t, m).Record)
			}
		}
	}
}

// setBack sets the clocks of the stores back, sometimes, by whole minutes.
func (w *world) setBack(t *rapid.T) {
	if rapid.IntRange(0, 3).Draw(t, "seldom") > 0 {
		t.Skip("seldom")
	}
	by := rapid.SampledFrom([]time.Duration{time.Minute, time.Hour, 9 * time.Hour}).Draw(t, "by")
	w.back += by
	w.pass(t, -by)
}

// forget lets everything expire, and finds that nothing is left.
func (w *world) forget(t *rapid.T) {
	for _, s := range w.stores {
		s.age(t, rules.PauseTTL+time.Hour+w.back, w.messages...)
		for _, m := range w.messages {
			if got := s.look(t, m); got.exists {
				t.Fatalf("%s: %q outlived its TTL: %+v", s.name, m.ID, got)
			}
		}
	}
}

// same fails the test if two stores differ. They took each step one after the other, so their times differ by as much
// as the sequence has taken so far, and by the second to which some are rounded.
func (w *world) same(t *rapid.T, what string, want, got any) {
	t.Helper()
	within := time.Since(w.began) + time.Second
	tolerant := cmp.Options{
		cmpopts.EquateApproxTime(within),
		cmp.FilterPath(func(p cmp.Path) bool { return p.Last().String() == ".Fence" }, cmp.Comparer(func(a, b int64) bool {
			return time.Duration(max(a-b, b-a))*time.Microsecond < within
		})),
		cmp.Comparer(func(a, b time.Duration) bool { return (a - b).Abs() < within }),
	}
	if diff := cmp.Diff(want, got, tolerant); diff != "" {
		t.Fatalf("%s: -memory +this:\n%s", what, diff)
	}
}

// check checks that a step leaves a whole record, and the rules about ages, moves and held queues that spec/v1 has no
// case for.
func (d *taken) check(t *rapid.T, where string) {
	t.Helper()
	b, a := d.before, d.after
	refuse := func(why string) {
		t.Helper()
		t.Fatalf("%s: %s\nstep:   %s %+v first %v mode %v limit %d -> %+v\nbefore: %+v\nafter:  %+v", where, why, d.step,
			d.Token, d.First, d.mode, d.limit, d.reply, b, a)
	}
	failed, crashed := 0, 0
	for _, token := range a.Tokens {
		failed += rules.Flag(token.Kind == rules.KindFailed)
		crashed += rules.Flag(token.Kind == rules.KindCrashed)
	}
	if failed != a.Failures || crashed != a.Crashes {
		refuse(fmt.Sprintf("%d failures and %d crashes by other numbers of tokens", a.Failures, a.Crashes))
	}
	if b.exists && (a.Starts < b.Starts || a.Fence < b.Fence) {
		refuse("the fence shrank")
	}
	if b.exists && !a.exists || a.exists && a.TTL <= 0 {
		refuse("a step made the record vanish or live forever")
	}
	// A record that was too old before, and reaches its limit now, keeps that cause.
	if d.reply.Code != rules.ReplyHeld && b.State != StateHeld && d.becameTooOld() != (a.Cause == CauseTooOld &&
		(b.Cause != CauseTooOld || b.State != StateDeadLetter && a.State == StateDeadLetter &&
			a.Counted() < d.reply.Limit)) {
		refuse("dead-lettered for its age, or not")
	}
	for _, why := range []string{d.wrongHold(), d.wrongMove()} {
		if why != "" {
			refuse(why)
		}
	}
}

// wrongMove returns the rule that a step broke about a move, or "".
func (d *taken) wrongMove() string {
	b, a := d.before.Move, d.after.Move
	switch {
	case d.before.exists && (a.CopyNumber < b.CopyNumber || a.Top < b.Top):
		return "a copy number shrank"
	case a.CopyNumber > a.Top:
		return "a copy number was confirmed that was never given"
	case d.reply.Code == rules.ReplySuperseded && (a.Body != d.Delay.Body || d.Delay.CopyNumber >= a.CopyNumber &&
		(d.Delay.CopyNumber == 0 || d.after.State != StateDone)):
		return "a delivery is superseded that no copy replaces"
	case d.reply.Code == rules.ReplySuperseded && d.after.tombstones.Count > d.before.tombstones.Count:
		return "a superseded delivery got a tombstone"
	}
	return ""
}

// waitsForCopy reports whether a START waits for the end of an attempt at another copy.
func (d *taken) waitsForCopy() bool {
	return d.step == "start" && d.reply.Code == rules.ReplyWait && d.Delay.CopyNumber > 0 && d.before.OpenToken != ""
}

// becameTooOld reports whether the step must find that the message has failed for too long, and nothing else.
func (d *taken) becameTooOld() bool {
	b, a, oldest := d.before, d.after, d.MaxAge
	if d.override != nil && d.override.MaxAge != nil {
		oldest = *d.override.MaxAge
	}
	late := oldest > 0 && a.LastTime.Sub(a.FirstTime) > oldest && a.Counted() > 0 && a.OwnLimit == 0
	known, counted := b.Tokens.Of(d.Token), a.Counted() > b.Counted()
	switch {
	case !late || d.limit == 0 || a.Counted() >= d.reply.Limit || b.State == StateSkip:
		return false
	case d.reply.Code == rules.ReplySuperseded, d.reply.Code == rules.ReplyHeld, d.waitsForCopy():
		return false
	case d.step == "start":
		handled := !b.Binds.IsZero() && !counted
		return known == 0 && (b.OpenToken == "" || b.OpenToken != d.Token) && b.State != StateDeadLetter && !handled
	case d.step == "fail":
		// a failure that was counted before decides only about a message that still waits
		return known != rules.KindNotCounted && b.State != StateDeadLetter &&
			(b.State == StateLive || known != rules.KindFailed)
	}
	return false
}

// amongDead reports whether a record must be among the dead.
func amongDead(s sight) bool { return s.exists && s.State == StateDeadLetter && s.Removed.IsZero() }

// checkKeys holds the index and the TTLs against the record.
func (d *taken) checkKeys(t *rapid.T, where string) {
	t.Helper()
	a := d.after
	live := a.exists && (!a.IsOver() || a.State == StateSkip)
	switch {
	case a.exists && amongDead(a) != a.dead && (amongDead(a) || amongDead(d.before)) && (a.dead || a.TTL > d.back):
		// else the entry is of a record that expired, or expired before it: its time is the clock's, which was set back
		t.Fatalf("%s: among the dead: %v, after %s of %q: %+v", where, a.dead, d.step, d.Token, a)
	case a.exists && a.indexed && !live:
		t.Fatalf("%s: what is over is in the index: %+v", where, a)
	case live && (a.Counted() > 0 || a.OpenToken != "") && !a.indexed:
		t.Fatalf("%s: not in the index after %s of %q: %+v", where, d.step, d.Token, a)
	case (a.indexed || a.dead && amongDead(a)) && a.setTTL < a.TTL-time.Second:
		// an entry of an expired record may go with its set
		t.Fatalf("%s: the index expires after %v, less than its record: %+v", where, a.setTTL, a)
	case a.exists && a.State == StateDone && a.Move.Top == 0 && a.TTL > max(rules.KeepDone, d.before.TTL)+time.Second:
		t.Fatalf("%s: a success is kept for %v", where, a.TTL)
	}
}

// wrongHold returns the rule that a step broke about a message that may hold its queue, or "".
func (d *taken) wrongHold() string {
	holds := d.before.State == StateHeld
	switch {
	case d.reply.Code == rules.ReplyHeld && !d.HoldsQueue:
		return "a message holds its queue for a consumer that does not ask for it"
	case d.reply.Code == rules.ReplyHeld && d.after.tombstones.Count > d.before.tombstones.Count:
		return "a message that holds its queue got a tombstone"
	case d.reply.Code == rules.ReplyHeld && d.after.State == StateLive &&
		d.before.Tokens.Of(d.Token) != rules.KindNotCounted:
		return "a message that holds its queue gets another attempt"
	case d.HoldsQueue && d.reply.Code == rules.ReplyExhausted && d.before.State != StateSkip &&
		d.before.State != StateDeadLetter:
		return "a message was dead-lettered instead of holding its queue"
	case d.reply.Code == rules.ReplyRun && holds && d.step == "start" && d.before.Tokens.Of(d.Token) == 0 &&
		d.before.OpenToken != d.Token:
		return "a message that holds its queue may run"
	case d.after.State == StateHeld && (d.reply.Code == rules.ReplyLimited || d.reply.Code == rules.ReplySkipped ||
		d.reply.Code == rules.ReplyReset):
		return "a message that was decided about still holds its queue"
	}
	return ""
}
