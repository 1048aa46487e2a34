package figures

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"slices"
	"testing"
	"time"

	"github.com/redis/go-redis/v9/logging"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestMain makes this test binary a consumer process where it is started as one.
func TestMain(m *testing.M) {
	logging.Disable()
	Worker()
	goleak.VerifyTestMain(m)
}

// TestFigures measures small figures on real servers, so that those who measure the large ones find a program that
// works.
func TestFigures(t *testing.T) {
	servertest.Long(t)
	s, err := open(t.Context(), config{kind: "classic"})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.close(); err != nil {
			t.Error(err)
		}
	}()
	for _, small := range []figure{
		&stops{n: 3, processes: 2, concurrency: 4, seed: 1},
		&outageHeld{down: 2 * settling, redelivered: 3, bad: 3, concurrency: 2, how: rig.Killed},
	} {
		if err := s.store.Flush(t.Context()); err != nil {
			t.Fatal(err)
		}
		measured, missed, err := small.measure(t.Context(), s)
		// the tests beside this one use it
		missed = slices.DeleteFunc(missed, func(m string) bool { return m[len(m)-3:] == "CPU" })
		if err != nil || len(missed) > 0 {
			t.Errorf("%T: %+v, missed %q, %v", small, measured, missed, err)
		}
	}
}

func TestUsage(t *testing.T) {
	servertest.Long(t)
	for _, tc := range []struct {
		args []string
		want error // nil: any
	}{
		{nil, rig.ErrUsage},
		{[]string{"speed"}, rig.ErrUsage},
		{[]string{"stops", "-h"}, flag.ErrHelp},
		{[]string{"stops", "-type", "stream"}, nil},
		{[]string{"drain", "-broker-kill", "true"}, nil},
		{[]string{"drain", "now"}, nil},
	} {
		if err := Run(t.Context(), tc.args); err == nil || tc.want != nil && !errors.Is(err, tc.want) {
			t.Errorf("%q: %v", tc.args, err)
		}
	}
}

func TestStopsMissed(t *testing.T) {
	servertest.Long(t)
	good := stopsMeasured{Stops: 5, InTheMiddle: 9, Messages: 100, CutOff: 3}
	if missed := good.missed(5); len(missed) > 0 {
		t.Errorf("%+v missed %q", good, missed)
	}
	for name, spoil := range map[string]func(*stopsMeasured){
		"failure": func(m *stopsMeasured) { m.Store.Failures = 1 }, "crash": func(m *stopsMeasured) { m.Store.Crashes = 1 },
		"lost ack": func(m *stopsMeasured) { m.Repeated = 1 }, "loss": func(m *stopsMeasured) { m.Unhandled = 1 },
		"dead": func(m *stopsMeasured) { m.DeadLetters = 1 }, "unclean": func(m *stopsMeasured) { m.Unclean = 1 },
		"too few": func(m *stopsMeasured) { m.Stops = 4 }, "open attempt": func(m *stopsMeasured) { m.Store.Open = 1 },
	} {
		bad := good
		spoil(&bad)
		if missed := bad.missed(5); len(missed) != 1 {
			t.Errorf("%s: missed %q", name, missed)
		}
	}
}

func TestOutageHeldMissed(t *testing.T) {
	servertest.Long(t)
	good := outageHeldMeasured{CPU: 4.9, Store: kept{Records: 20, Failures: 10, Most: 1}}
	if missed := good.missed(10); len(missed) > 0 {
		t.Errorf("%+v missed %q", good, missed)
	}
	for name, spoil := range map[string]func(*outageHeldMeasured){
		"begun": func(m *outageHeldMeasured) { m.Begun = 1 }, "settled": func(m *outageHeldMeasured) { m.Settled = 1 },
		"cpu": func(m *outageHeldMeasured) { m.CPU = 5 }, "uncharged": func(m *outageHeldMeasured) { m.Store.Failures = 9 },
		"twice": func(m *outageHeldMeasured) { m.Store.Most = 2 }, "crash": func(m *outageHeldMeasured) {
			m.Store.Crashes = 1
		},
		"dead": func(m *outageHeldMeasured) { m.Dead = 1 },
	} {
		bad := good
		spoil(&bad)
		if missed := bad.missed(10); len(missed) != 1 {
			t.Errorf("%s: missed %q", name, missed)
		}
	}
}

func TestSessionsMissed(t *testing.T) {
	servertest.Long(t)
	for _, tc := range []struct {
		m    sessionsMeasured
		want int
	}{
		{sessionsMeasured{Sessions: 10, Goroutines: []int{60, 62, 60}, Before: 10, After: 12}, 0},
		{sessionsMeasured{Sessions: 9, Goroutines: []int{60}, Before: 10, After: 10}, 1},
		{sessionsMeasured{Sessions: 10, Goroutines: []int{60, 63, 66}, Before: 10, After: 10}, 1},
		{sessionsMeasured{Sessions: 10, Goroutines: []int{60, 60}, Before: 10, After: 16}, 1},
	} {
		if missed := tc.m.missed(10); len(missed) != tc.want {
			t.Errorf("%+v: %q", tc.m, missed)
		}
	}
}

func TestBookCountsRepeatedSuccesses(t *testing.T) {
	servertest.Long(t)
	b := &book{successes: map[string]int{}}
	for _, l := range []line{
		{Kind: began, ID: "a"},
		{Kind: ended, ID: "a", OK: true},
		{Kind: ended, ID: "b"},
		{Kind: ended, ID: "b", OK: true},
		{Kind: ended, ID: "a", OK: true},
		{Kind: signalled},
		{Kind: signalled, Running: 3},
	} {
		b.add(l)
	}
	if b.hits() != 1 || b.distinct() != 2 || b.successes["a"] != 2 ||
		b.m != (stopsMeasured{Stops: 1, Idle: 1, InTheMiddle: 3, CutOff: 1}) {
		t.Errorf("%+v of %v", b.m, b.successes)
	}
}

// TestAStopIsCountedAfterItsSignal: a process that ends by itself has not been stopped.
func TestAStopIsCountedAfterItsSignal(t *testing.T) {
	for name, tc := range map[string]struct {
		signal bool
		want   []kind
	}{"by itself": {false, nil}, "by the signal": {true, []kind{signalled}}} {
		var out bytes.Buffer
		w := member{stopping: make(chan struct{}), out: json.NewEncoder(&out)}
		w.running.Store(3)
		signal, send := context.WithCancel(t.Context())
		running, end := context.WithCancel(signal)
		if tc.signal {
			send()
		}
		end()
		w.report(signal, running)
		send()
		<-w.stopping
		var got []kind
		for d := json.NewDecoder(&out); d.More(); {
			var l line
			if err := d.Decode(&l); err != nil || l.Running != 3 {
				t.Fatalf("%+v, %v", l, err)
			}
			got = append(got, l.Kind)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: told %q, want %q", name, got, tc.want)
		}
	}
}

func TestRate(t *testing.T) {
	servertest.Long(t)
	var r rate
	start := time.Now()
	for _, n := range []int{10, 30} {
		r.add(line{At: start}, line{At: start.Add(2 * time.Second), CPU: time.Duration(n) * time.Millisecond,
			Tally: tally{Handled: n}})
	}
	if r.Handled != 40 || r.Seconds != 4 || r.PerSecond != 10 || r.CPU != 1000 {
		t.Errorf("%+v", r)
	}
}

func TestMedian(t *testing.T) {
	servertest.Long(t)
	for _, tc := range []struct {
		of   []float64
		want float64
	}{{[]float64{3}, 3}, {[]float64{9, 1, 5}, 5}, {[]float64{4, 1}, 1}} {
		if got := median(tc.of, func(f float64) float64 { return f }); got != tc.want {
			t.Errorf("median(%v) = %v", tc.of, got)
		}
	}
}

func TestKept(t *testing.T) {
	servertest.Long(t)
	var k kept
	for _, r := range []counter.Record{{Failures: 2, Crashes: 1, OpenToken: "p-4"}, {Failures: 1},
		{State: counter.StateDone}} {
		k.add(r)
	}
	if k != (kept{Records: 3, Failures: 3, Crashes: 1, Most: 3, Open: 1}) {
		t.Errorf("%+v", k)
	}
}

// TestProcessThatEnds: nothing waits for a process that is gone.
func TestProcessThatEnds(t *testing.T) {
	servertest.Long(t)
	p, err := spawn(workerSpec{Redis: "no URL"})
	if err != nil {
		t.Fatal(err)
	}
	defer p.end()
	if _, err := p.until(context.Background(), time.Minute, "a miracle", func(line) bool { return true }); err == nil {
		t.Error("it came")
	}
}
