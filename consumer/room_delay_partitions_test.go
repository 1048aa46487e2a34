package consumer

import (
	"testing"
	"time"
)

func TestDelayRefusedWithPartitions(t *testing.T) {
	wantRefused(t, map[string]Consumer{"DelayAbove 1m": {Ordered: true, Partitions: 8, DelayAbove: time.Minute}})
}
