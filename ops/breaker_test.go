package ops

import (
	"strings"
	"testing"
	"time"
)

// TestBreakerText: the end of the line says when the next probe begins, or that no consumer asks for one.
func TestBreakerText(t *testing.T) {
	now := time.Date(2026, 11, 21, 14, 2, 11, 0, time.UTC)
	for _, c := range []struct {
		next time.Duration // from now
		says string
	}{
		{2 * time.Second, "counted. Next probe in 2s. 8 of 8: refused"},
		{-time.Second, "counted. Next probe in 0s. 8 of 8: refused"},
		{-12 * time.Minute, "counted. A probe has been due for 12m0s: no consumer with a breaker asks for one; "},
	} {
		b := &Breaker{Since: now.Add(-time.Hour), Open: true, Failed: 8, Alike: 8, Reason: "refused", Next: now.Add(c.next)}
		if text := b.Text(now); !strings.Contains(text, c.says) {
			t.Errorf("next probe in %s: %q does not have %q", c.next, text, c.says)
		}
	}
}
