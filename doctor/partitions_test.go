package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// TestJudgeDeal: too many processes, and shares that stay uneven, are found.
func TestJudgeDeal(t *testing.T) {
	now := time.Unix(1700000000, 0)
	deal := func(ago time.Duration, shares ...int) (d counter.Deal) {
		d.Read = now.Add(-ago)
		for _, n := range shares {
			d.Members = append(d.Members, counter.DealMember{Read: d.Read, Partitions: make([]int, n)})
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
