package soak

import (
	"math/rand/v2"
	"testing"

	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/rig"
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

func TestFlagsAreChecked(t *testing.T) {
	for _, args := range [][]string{
		{"-messages", "0"}, {"-type", "stream"}, {"-faults", "-1"}, {"stray"}, {"-broker-kill", "x"},
		{"-broker-kill", "x", "-broker-start", "y"},
		{"-store-faults", "fog"}, {"-store-faults", "late", "-cluster"}, {"-abandoned", "-1"}, {"-handler-timeout", "31s"},
		{"-handler-timeout", "0s"}, {"-lanes", "2"},
		{"-languages", "perl"}, {"-languages", "go,http", "-abandoned", "1"}, {"-languages", "http", "-store-faults", "late"},
		{"-languages", "python", "-ordered"}, {"-languages", "go,node", "-cluster"},
		{"-outage", "1s"}, {"-outage", "1m", "-ordered"}, {"-outage", "1m", "-cluster"},
		{"-outage", "1m", "-languages", "go,node"}, {"-outage", "1m", "-store-faults", "late"},
		{"-store", "x"}, {"-store", "mysql", "-cluster"}, {"-store", "mysql", "-store-faults", "late"},
		{"-store", "postgres", "-languages", "go,node"}, {"-cluster", "-type", "classic"}, {"-cluster", "-amqp", "amqp://x"},
	} {
		if _, err := parseFlags(args); err == nil {
			t.Errorf("%q was accepted", args)
		}
	}
	k := soak{cfg: config{only: "earthquake"}, broker: &rig.Broker{Node: &rig.Node{}}, store: &rig.Store{}}
	if _, err := k.possible(); err == nil {
		t.Error("-only earthquake was accepted")
	}
}
