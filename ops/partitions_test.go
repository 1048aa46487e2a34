package ops

import (
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// TestDealToAKilledProcess: a process that was killed, and that no other process has replaced, has no partition.
func TestDealToAKilledProcess(t *testing.T) {
	now := time.Unix(1700000000, 0)
	s := Status{Time: now, Partitions: make([]Partition, 2)}
	s.dealt(counter.Deal{Partitions: 2, Members: []counter.DealMember{
		{Consumer: "lives", Read: now.Add(-2 * time.Second), Partitions: []int{0}},
		{Consumer: "killed", Read: now.Add(-time.Minute), Partitions: []int{1}},
	}})
	if s.Partitions[0].Process != "lives" || s.Partitions[1].Process != "" {
		t.Errorf("%+v", s.Partitions)
	}
}
