package doctor

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/alicebob/miniredis/v2"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
)

func TestPauseFinding(t *testing.T) {
	note := counter.Note{By: "jo", Why: "supplier down\nmore", At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	f := judgePause(&counter.Pause{Note: note}, "it's")
	if f.Code != "paused" || f.Severity != inspect.Warning ||
		f.Seen != "the queue has been paused since 2026-11-21T12:00:00Z, by jo: supplier down…" ||
		!strings.HasSuffix(f.Fix, `run strikes resume 'it'\''s'`) {
		t.Errorf("finding: %+v", f)
	}
	note.By = ""
	if f := judgePause(&counter.Pause{Note: note}, "q"); !strings.Contains(f.Seen,
		"since 2026-11-21T12:00:00Z: supplier down") {
		t.Errorf("finding: %+v", f)
	}
	held := &counter.Pause{Note: note, Holding: &counter.Holding{Message: counter.Message{ID: "m-1"}}}
	if f := judgePause(held, "q"); f.Code != "paused" || !strings.HasPrefix(f.Fix, "decide about message m-1, because a "+
		"resume alone does not end this pause") {
		t.Errorf("finding of an exhausted message: %+v", f)
	}
}

// TestForeignKey: a queue whose data another program overwrote has a finding, and the next queue is asked about all the
// same.
func TestForeignKey(t *testing.T) {
	server := miniredis.RunT(t)
	counts, err := counter.Dial("redis://"+server.Addr(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer counts.Close()
	c := &Checkup{Store: counts.Admin()}
	for _, queue := range []string{"orders", "paused"} {
		if err := c.Store.Pause(t.Context(), "/", queue, counter.Note{Why: "why"}); err != nil {
			t.Fatal(err)
		}
	}
	for _, key := range server.Keys() {
		if strings.Contains(key, "orders") {
			server.Del(key)
			if err := server.Set(key, "x"); err != nil {
				t.Fatal(err)
			}
		}
	}
	for queue, want := range map[string]string{"orders": "store-foreign", "paused": "paused"} {
		if found, err := c.kept(t.Context(), "/", queue); err != nil || len(found) != 1 || found[0].Code != want {
			t.Errorf("%s: %+v, %v, want %s", queue, found, err, want)
		}
	}
}

// slowStore has the dead letters of one queue on a disk that does not answer. Each queue has a consumer.
type slowStore struct {
	counter.Store
	slow string
}

func (slowStore) Close() error { return nil }

func (slowStore) Load(_ context.Context, _ counter.Queue, names ...string) (time.Time, []counter.Doc, error) {
	docs := make([]counter.Doc, len(names))
	for i, name := range names {
		docs[i].Name = name
	}
	return time.Now(), docs, nil
}

func (s slowStore) Page(ctx context.Context, q counter.Queue, set string, _ counter.Entry, _ int) ([]counter.Entry,
	error) {
	switch {
	case set == "consumers":
		return []counter.Entry{{Name: "0 reader web-1", Score: time.Now().UnixMilli()}}, nil
	case q.Name == s.slow:
		<-ctx.Done()
	}
	return nil, ctx.Err()
}

func (slowStore) Count(context.Context, counter.Queue, string, int64) (int, error) { return 0, nil }

// TestSlowQueue: a queue whose records cannot be read in time is reported, and the store is asked about the next one,
// but after mostSlow of them it is not.
func TestSlowQueue(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		counts := counter.Over(slowStore{slow: "orders"}, nil)
		defer counts.Close()
		c := &Checkup{Store: counts.Admin()}
		if _, err := c.kept(t.Context(), "/", "orders"); !errors.Is(err, context.DeadlineExceeded) || c.mute.Load() {
			t.Errorf("orders: %v; the store is asked no more: %v", err, c.mute.Load())
		}
		if found, err := c.kept(t.Context(), "/", "paused"); err != nil || len(found) > 0 {
			t.Errorf("paused: %+v, %v", found, err)
		}
		for range mostSlow - 1 {
			_, _ = c.kept(t.Context(), "/", "orders")
		}
		if !c.mute.Load() {
			t.Errorf("after %d slow queues the store is asked about the next one", mostSlow)
		}
	})
}

// TestExplainedAbsence: a pause says why the queue has no consumer.
func TestExplainedAbsence(t *testing.T) {
	alone := inspect.Say(inspect.CodeNoConsumer, nil)
	for _, code := range []string{"paused", "partition-idle"} {
		if got := explained([]inspect.Finding{alone, inspect.Say(code, nil)}); len(got) != 1 || got[0].Code != code {
			t.Errorf("with %s: %+v", code, got)
		}
	}
	if got := explained([]inspect.Finding{alone, inspect.Say("exclusive", nil)}); len(got) != 2 {
		t.Errorf("with another finding: %+v", got)
	}
}

// A delay queue expires its messages and dead-letters them to a work queue by intent.
func TestRulesForTheDelayQueues(t *testing.T) {
	for _, b := range broker.DelayQueues {
		if len(inspect.RulesFor(b.Name)) > 0 {
			t.Errorf("%s is judged as a queue that consumers retry from", b.Name)
		}
	}
	if len(inspect.RulesFor(broker.DelayLost)) > 0 || len(inspect.RulesFor("orders")) == 0 {
		t.Error("wrong rules for other queues")
	}
}

// TestBurst: many deaths of one reason within moments are the trace of an outage, and all else is none.
func TestBurst(t *testing.T) {
	now := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	deaths := func(n int, ago, every time.Duration, cause counter.Cause, why string) (all []counter.DeadReason) {
		for i := range n {
			all = append(all, counter.DeadReason{ID: fmt.Sprint(i), Cause: cause, Reason: why,
				At: now.Add(-ago - time.Duration(i)*every)})
		}
		return all
	}
	refused := "dial tcp 10.0.0.7:5432: connection refused"
	outage := deaths(40, time.Hour, 50*time.Millisecond, counter.CauseFailed, refused)
	for name, tc := range map[string]struct {
		dead []counter.DeadReason
		want int
		last time.Duration // ago
	}{
		"nothing":              {nil, 0, 0},
		"an outage":            {outage, 40, time.Hour},
		"deaths by a deadline": {deaths(40, time.Hour, 50*time.Millisecond, counter.CauseTimedOut, refused), 40, time.Hour},
		"more before it":       {append(deaths(30, 2*time.Hour, 0, counter.CauseFailed, refused), outage...), 40, time.Hour},
		"rejected messages":    {deaths(40, time.Hour, 0, counter.CauseRejected, refused), 0, 0},
		"messages that kill":   {deaths(40, time.Hour, 0, counter.CauseCrashed, refused), 0, 0},
		"skipped messages":     {deaths(40, time.Hour, 0, counter.CauseSkipped, refused), 0, 0},
		"a few":                {deaths(burst-1, time.Hour, 0, counter.CauseFailed, refused), 0, 0},
		"one a second":         {deaths(100, time.Hour, time.Second, counter.CauseFailed, refused), 0, 0},
		"long ago":             {deaths(40, 8*24*time.Hour, 0, counter.CauseFailed, refused), 0, 0},
		"of a reason each": {append(deaths(15, 0, 0, counter.CauseFailed, "no stock"),
			deaths(15, 0, 0, counter.CauseFailed, "no card")...), 0, 0},
		"in the order of store": {append(outage[20:], outage[:20]...), 40, time.Hour},
	} {
		last, n := burstOf(tc.dead, now)
		if n != tc.want || n > 0 && !last.At.Equal(now.Add(-tc.last)) {
			t.Errorf("%s: %d messages, the last at %v; want %d", name, n, last.At, tc.want)
		}
	}
}

// TestJudgeDeal: too many processes, and shares that stay uneven, are found.
func TestJudgeDeal(t *testing.T) {
	now := time.Unix(1700000000, 0)
	deal := func(ago time.Duration, shares ...int) (d counter.Deal) {
		d.Read = now.Add(-ago)
		for _, n := range shares {
			d.Members = append(d.Members, rules.Member{Read: d.Read, Partitions: make([]int, n)})
		}
		return d
	}
	for name, tc := range map[string]struct {
		deal counter.Deal
		want string
	}{
		"none":               {counter.Deal{}, ""},
		"even":               {deal(time.Second, 2, 1, 1), ""},
		"uneven now":         {deal(time.Second, 3, 1), ""},
		"uneven for long":    {deal(31*time.Second, 3, 1), "partition-shares"},
		"off by one":         {deal(time.Hour, 2, 1, 1), ""},
		"too many":           {deal(time.Second, 1, 1, 1, 1, 0), "partition-processes"},
		"too many died long": {deal(time.Minute, 1, 1, 1, 1, 0), ""},
	} {
		var codes []string
		for _, f := range judgeDeal(tc.deal, now, 4) {
			codes = append(codes, f.Code)
		}
		if got := strings.Join(codes, " "); got != tc.want {
			t.Errorf("%s: found %q, want %q", name, got, tc.want)
		}
	}
}
