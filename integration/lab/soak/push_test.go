package soak

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/internal/audit"
)

// TestSteppedReadsTheWire: what a recorder in a worker writes down is read from requests and replies.
func TestSteppedReadsTheWire(t *testing.T) {
	one := func(args ...string) []stepArgs {
		return steps(call(append([]string{"p-1", "m1", "", "host", "4", "-1"}, args...)))
	}
	reply := "*1\r\n*9\r\n$%v:1\r\n:2\r\n:4\r\n:0\r\n:0\r\n$-1\r\n$-1\r\n:0\r\n"
	code := func(v string) []byte {
		return []byte(reply[:len("*1\r\n*9\r\n$")] + string(rune('0'+len(v))) + "\r\n" + v + "\r\n" +
			reply[len("*1\r\n*9\r\n$%v"):])
	}
	base := audit.Event{Kind: audit.Stepped, ID: "m1", Token: "p-1"}
	with := func(change func(e *audit.Event)) audit.Event {
		e := base
		change(&e)
		return e
	}
	for name, tc := range map[string]struct {
		all  []stepArgs
		raw  []byte
		want []audit.Event
	}{
		"isolated": {one("isolated", "0"), code("RUN"), []audit.Event{with(func(e *audit.Event) {
			e.Step, e.Isolated, e.Code, e.Failures, e.Crashes, e.Limit = audit.StepStart, true, "run", 1, 2, 4
		})}},
		"fail": {one("10", "timed-out", "shared", "5"), code("REQUEUE"), []audit.Event{with(func(e *audit.Event) {
			e.Step, e.Code, e.Failures, e.Crashes, e.Limit = audit.StepFail, "requeue", 1, 2, 4
		})}},
		"begun": {one(), code("BEGUN"), []audit.Event{with(func(e *audit.Event) {
			e.Step, e.Code, e.Failures, e.Crashes, e.Limit = audit.StepBegun, "begun", 1, 2, 4
		})}},
		"end": {one("1", "600000"), code("ENDED"), []audit.Event{with(func(e *audit.Event) {
			e.Step, e.Code = audit.StepEnd, "ended"
		})}},
		"no reply": {one("1", "600000"), nil, []audit.Event{with(func(e *audit.Event) {
			e.Step, e.Err = audit.StepEnd, errNoReply.Error()
		})}},
		"an error": {one("1", "600000"), []byte("-LOADING x\r\n"), []audit.Event{with(func(e *audit.Event) {
			e.Step, e.Err = audit.StepEnd, "LOADING x"
		})}},
		"one error": {one("1", "600000"), []byte("*1\r\n-ERR x\r\n"), []audit.Event{with(func(e *audit.Event) {
			e.Step, e.Err = audit.StepEnd, "ERR x"
		})}},
		"no script": {one("1", "600000"), []byte("-NOSCRIPT x\r\n"), nil},
	} {
		if got := stepped(tc.all, tc.raw); !slices.Equal(inShort(got), inShort(tc.want)) {
			t.Errorf("%s: %+v, want %+v", name, got, tc.want)
		}
	}
}

// seen is what a step's event says, without what cannot be compared.
type seen struct {
	id, token, step, code, err string
	isolated                   bool
	failures, crashes, limit   int
}

func inShort(events []audit.Event) (out []seen) {
	for _, e := range events {
		out = append(out, seen{e.ID, e.Token, e.Step, e.Code, e.Err, e.Isolated, e.Failures, e.Crashes, e.Limit})
	}
	return out
}

// TestSessionsOfAPusher: a session that ended before the process was told to stop was lost, and one that another
// follows; not one that ends with a clean stop.
func TestSessionsOfAPusher(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(p *pusher)
		want []audit.Kind
	}{
		"clean": {func(p *pusher) {
			left := p.joined()
			p.told(syscall.SIGTERM)
			left()
			p.exited(1, nil)
		}, []audit.Kind{audit.Opened, audit.Stopped}},
		"lost, then stopped": {func(p *pusher) { left := p.joined(); left(); p.told(syscall.SIGTERM); p.exited(1, nil) },
			[]audit.Kind{audit.Opened, audit.Lost, audit.Stopped}},
		"lost, then another": {func(p *pusher) {
			p.joined()()
			left := p.joined()
			p.told(syscall.SIGTERM)
			left()
			p.exited(1, nil)
		},
			[]audit.Kind{audit.Opened, audit.Lost, audit.Opened, audit.Stopped}},
		"killed": {func(p *pusher) {
			p.joined()()
			p.exited(1, errors.New("killed"))
		}, []audit.Kind{audit.Opened, audit.Lost}},
	} {
		dir := filepath.Clean(t.TempDir())
		log, err := audit.Append(dir, 0)
		if err != nil {
			t.Fatal(err)
		}
		tc.play(&pusher{log: log, number: 1, sessions: map[int][]time.Time{}})
		if err := log.Close(); err != nil {
			t.Fatal(err)
		}
		events, err := audit.Read(dir)
		if err != nil {
			t.Fatal(err)
		}
		var got []audit.Kind
		for _, e := range events {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestAnswer(t *testing.T) {
	for _, tc := range []struct {
		do      string
		err     error
		outcome string
		status  int
	}{
		{audit.Succeed, nil, audit.OK, 204}, {audit.Reject, work.ErrJob, audit.Rejected, 422},
		{audit.Panic, work.ErrJob, audit.Panicked, 500},
		{audit.Poison, work.ErrJob, audit.Failed, 500},
	} {
		if outcome, status := answer(work.Job{Do: tc.do}, tc.err); outcome != tc.outcome || status != tc.status {
			t.Errorf("%s: %s, %d", tc.do, outcome, status)
		}
	}
	if hungUp(1900*time.Millisecond, 2*time.Second) != audit.TimedOut || hungUp(10*time.Millisecond,
		2*time.Second) != audit.Cancelled {
		t.Error("a request that was ended at its deadline, or before")
	}
}
