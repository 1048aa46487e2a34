package bench

import (
	"math"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestRatioIsTakenRoundByRound(t *testing.T) {
	of, to := &Case{Contest: Success, Name: Strikes}, &Case{Contest: Success, Name: bareEach}
	for _, rates := range [][2]float64{{100, 50}, {10, 10}, {30, 20}} { // the second round was a slow one for both
		of.add(sample{rate: rates[0]})
		to.add(sample{rate: rates[1]})
	}
	r := ratio(of, to)
	if r.Median != 1.5 || r.Least != 1 || r.Most != 2 || r.OfRate != 30 || r.ToRate != 20 || r.Goal != 1.25 || !r.Met() {
		t.Errorf("%+v", r)
	}
	if got := median([]float64{4, 1, 3, 2}); math.Abs(got-2.5) > 1e-9 {
		t.Errorf("the median of an even number is %v", got)
	}
}

func TestGoalIsMetByUnit(t *testing.T) {
	for _, tt := range []struct {
		unit         string
		median, goal float64
		want         bool
	}{{Rate, 1, 1.2, false}, {Rate, 1.3, 1.2, true}, {Time, 1, 1.2, true}, {Time, 1.3, 1.2, false}, {Rate, 0.1, 0, true}} {
		if got := (Ratio{Unit: tt.unit, Median: tt.median, Goal: tt.goal}).Met(); got != tt.want {
			t.Errorf("%+v: met is %v", tt, got)
		}
	}
}

// TestEveryGoalIsMeasured finds a goal that names nothing.
func TestEveryGoalIsMeasured(t *testing.T) {
	all := cases(Options{}.withDefaults())
	for _, c := range all {
		c.add(sample{rate: 1})
	}
	g := &ground{admin: &amqp.Connection{}}
	r := g.result(all)
	r.addPopulation(&Case{Contest: Counter, Name: fewLive, Rates: []float64{1}}, &Case{Contest: Counter, Name: manyLive, Rates: []float64{1}})
	for _, want := range goals {
		found := 0
		for _, x := range r.Ratios {
			if x.Contest == want.contest && x.Of == want.of && x.To == want.to && x.Failing == want.failing && x.Goal == want.value {
				found++
			}
		}
		kinds := 2
		if want.queue != "" || want.contest == Counter {
			kinds = 1
		}
		if found != kinds {
			t.Errorf("%+v: measured %d times, want %d", want, found, kinds)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, o := range []Options{
		{Messages: 10}, {Messages: -1}, {Rounds: 1000}, {Concurrency: 101}, {Live: 1}, {Failing: []int{-1}}, {Failing: []int{101}}, {Only: []string{"all"}}, {Time: -1},
		{Only: []string{OrderedFailing}, Failing: []int{0}},
	} {
		if err := o.Validate(); err == nil {
			t.Errorf("%+v is accepted", o)
		}
	}
	for _, o := range []Options{{}, {Failing: []int{0}}} {
		if err := o.Validate(); err != nil {
			t.Error(err)
		}
	}
}
