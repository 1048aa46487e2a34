package faults

import (
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/servers"
)

func TestScheduleIsFairAndRepeatable(t *testing.T) {
	one := Possible(&rig.Broker{Private: &servers.RabbitMQ{}})
	all := slices.Concat(one, one[:5])
	of := map[string]int{}
	for _, k := range all {
		of[k.Name]++
	}
	names := func(seed uint64) (out []string) {
		schedule := Schedule(all, 2*len(all)+3, 1000, 3, rand.New(rand.NewPCG(seed, 1)))
		at := 0
		for _, f := range schedule {
			if f.At <= at || f.At >= 1000 || f.Seat < 0 || f.Seat > 2 {
				t.Errorf("%s at %d after %d, seat %d", f.Name, f.At, at, f.Seat)
			}
			at = f.At
			out = append(out, f.Name)
		}
		return out
	}
	first := names(1)
	count := map[string]int{}
	for _, name := range first {
		count[name]++
	}
	for name, n := range of {
		if got := count[name]; got < 2*n || got > 3*n {
			t.Errorf("%s is injected %d times, and is %d times among the kinds", name, got, n)
		}
	}
	if !slices.Equal(first, names(1)) || slices.Equal(first, names(2)) {
		t.Error("the order does not follow from the seed")
	}
}
