package bench

import (
	"math"
	"testing"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestRatioIsTakenRoundByRound(t *testing.T) {
	servertest.Long(t)
	of, to := &Case{Contest: success, Name: strikes}, &Case{Contest: success, Name: "bare"}
	for _, rates := range [][2]float64{{100, 50}, {10, 10}, {30, 20}} { // the second round was a slow one for both
		of.add(sample{rate: rates[0]})
		to.add(sample{rate: rates[1]})
	}
	r := compare(of, to, 1.25)
	if r.Median != 1.5 || r.Least != 1 || r.Most != 2 || r.OfRate != 30 || r.ToRate != 20 || r.Goal != 1.25 ||
		r.goal() != ">= 1.25" {
		t.Errorf("%+v", r)
	}
	if got := median([]float64{4, 1, 3, 2}); math.Abs(got-2.5) > 1e-9 {
		t.Errorf("the median of an even number is %v", got)
	}
}

// TestEveryGoalIsMeasured finds a goal that no ratio carries.
func TestEveryGoalIsMeasured(t *testing.T) {
	servertest.Long(t)
	c, err := parseFlags(nil)
	need(t, err)
	all := cases(c)
	for _, c := range all {
		c.add(sample{rate: 1})
	}
	r := (&bench{config: c, broker: &rig.Broker{}, store: &rig.Store{One: &servers.Redis{}}}).result(all)
	found := map[string]int{}
	for _, x := range r.Ratios {
		if x.Goal > 0 {
			found[x.Contest+", "+x.To]++
		}
	}
	for _, want := range table() {
		n := 0
		switch {
		case want.goal == goal{}:
		case want.only != "":
			n = 1
		default:
			n = 2
		}
		if got := found[want.contest+", "+want.name]; got != n {
			t.Errorf("%s, %s: %d ratios with a goal, want %d", want.contest, want.name, got, n)
		}
	}
}
