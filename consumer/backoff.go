package consumer

import (
	"math/rand/v2"
	"time"
)

const (
	backoffFirst = 100 * time.Millisecond
	backoffMost  = 30 * time.Second
)

// DefaultBackoff doubles from 100 ms with each failed attempt up to 30 s, and takes off a random part of up to a half,
// so that messages which failed together do not come back together.
func DefaultBackoff(failed int) time.Duration {
	return jitter(doubled(backoffFirst, backoffMost, failed))
}

// storeBackoff is the wait before a step is sent again to a store that did not take it.
func storeBackoff(times int) time.Duration {
	return jitter(doubled(50*time.Millisecond, 2*time.Second, times))
}

func doubled(first, most time.Duration, n int) time.Duration {
	d := first
	for ; n > 1 && d < most; n-- {
		d *= 2
	}
	return min(d, most)
}

func jitter(d time.Duration) time.Duration { return d - draw(d/2+1) }

// draw is replaced where a schedule is to be repeated exactly.
var draw = rand.N[time.Duration]
