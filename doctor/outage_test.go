package doctor

import (
	"fmt"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

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
