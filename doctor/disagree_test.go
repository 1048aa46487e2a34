package doctor

import (
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter"
)

var noon = time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)

func earlierBy(d time.Duration) time.Time { return noon.Add(-d) }

func TestDisagreement(t *testing.T) {
	live := func(limit int, consumer string, ago time.Duration) counter.Record {
		return counter.Record{Limit: limit, Consumer: consumer, Failures: 1, LastTime: earlierBy(ago)}
	}
	dead := live(4, "web-3", 0)
	dead.State = counter.StateDeadLetter
	for name, tc := range map[string]struct {
		records []counter.Record
		want    []ConsumerLimit
	}{
		"nothing": {nil, nil},
		"one":     {[]counter.Record{live(4, "web-1", 0), live(4, "web-2", 0)}, nil},
		"two": {[]counter.Record{live(101, "web-2", 0), live(4, "web-9", 0), live(4, "web-1", 0)},
			[]ConsumerLimit{{4, "web-1"}, {101, "web-2"}}},
		"not known":             {[]counter.Record{live(101, "web-2", 0), live(0, "web-1", 0)}, nil},
		"before a deployment":   {[]counter.Record{live(101, "web-2", 0), live(4, "web-1", time.Hour)}, nil},
		"what is dead-lettered": {[]counter.Record{live(101, "web-2", 0), dead}, nil},
		"an attempt that is new": {[]counter.Record{live(101, "web-2", 0), {Limit: 4, Consumer: "web-1", OpenSince: noon}},
			[]ConsumerLimit{{4, "web-1"}, {101, "web-2"}}},
	} {
		if diff := cmp.Diff(tc.want, Disagreement(slices.Values(tc.records), noon)); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}
