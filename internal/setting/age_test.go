package setting

import (
	"testing"
	"time"
)

func TestAge(t *testing.T) {
	for text, want := range map[string]time.Duration{
		"1d": day, "0d": 0, "7d": 7 * day, "1d12h": 36 * time.Hour, "90s": 90 * time.Second, "1h30m": 90 * time.Minute,
		"-1s": -time.Second,
	} {
		if got, err := ParseAge(text); got != want || err != nil {
			t.Errorf("%s: %v, %v", text, got, err)
		}
	}
	for _, bad := range []string{"", "d", "1", "-1d", "1.5d", "1dd", "1d-1h", "1d5", "106752d", "99999999999999999999d",
		"1w"} {
		if got, err := ParseAge(bad); err == nil {
			t.Errorf("%q: %v", bad, got)
		}
	}
}
