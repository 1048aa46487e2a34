package records

import (
	"testing"
	"time"
)

func TestShort(t *testing.T) {
	for want, d := range map[string]time.Duration{
		"24h": 24 * time.Hour, "1h5m": 65 * time.Minute, "10m": 10 * time.Minute, "1h0m10s": time.Hour + 10*time.Second,
		"20s": 20 * time.Second, "1.5s": 1500 * time.Millisecond, "1ms": time.Millisecond,
	} {
		if got := short(d); got != want {
			t.Errorf("%v is %q, want %q", d, got, want)
		}
	}
}
