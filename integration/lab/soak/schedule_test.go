package soak

import (
	"math/rand/v2"
	"testing"

	"github.com/strikesmq/strikes/integration/internal/ledger"
)

func TestPlanHasEachKind(t *testing.T) {
	cfg, err := parseFlags([]string{"-messages", "4000", "-seed", "5", "-abandoned", "2"})
	need(t, err)
	count := map[string]int{}
	for _, j := range plan(cfg, rand.New(rand.NewPCG(cfg.seed, 1))) {
		count[j.Do]++
		if j.Do == ledger.Fail && (j.Times < 1 || j.Times > maxRetries) {
			t.Errorf("fails %d times of %d", j.Times, maxRetries+1)
		}
	}
	for _, do := range []string{
		ledger.Succeed, ledger.Slow, ledger.Fail, ledger.Poison, ledger.Reject, ledger.Panic, ledger.Hang, ledger.Deaf,
		ledger.Kill, ledger.Abandon,
	} {
		if count[do] == 0 {
			t.Errorf("no message is to %s: %v", do, count)
		}
	}
	if count[ledger.Succeed] < 3000 {
		t.Errorf("%d of 4000 succeed", count[ledger.Succeed])
	}
}
