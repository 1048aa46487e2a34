package consumer

import (
	"testing"
	"time"
)

func TestDefaultBackoff(t *testing.T) {
	for failed, most := range map[int]time.Duration{
		0: 100 * time.Millisecond, 1: 100 * time.Millisecond, 2: 200 * time.Millisecond, 5: 1600 * time.Millisecond,
		9: 25600 * time.Millisecond, 10: 30 * time.Second, 1000: 30 * time.Second,
	} {
		for range 100 {
			if d := DefaultBackoff(failed); d < most/2 || d > most {
				t.Errorf("after %d failed attempts: %v, want %v to %v", failed, d, most/2, most)
			}
		}
	}
}
