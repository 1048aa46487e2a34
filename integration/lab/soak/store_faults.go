package soak

import (
	"time"

	"github.com/strikesmq/strikes/internal/proxy"
)

// storeFault disturbs the replies of the store, and the requests of all processes to it, from the beginning of a soak
// until its queue is drained.
type storeFault struct {
	odds  proxy.Odds
	drain time.Duration // within which the queue has to drain
}

// A late reply comes far beyond the 250 ms for which a client waits.
const lateFrom, lateTo = 100 * time.Millisecond, 600 * time.Millisecond

// storeFaults has the faults that -store-faults names. late makes half the replies late, and slow 80 % of them. lossy
// loses 15 % of the replies, makes 10 % late, resets 5 % of the connections and doubles 30 % of the requests.
var storeFaults = map[string]storeFault{
	"late": {proxy.Odds{Late: .5, LateFrom: lateFrom, LateTo: lateTo}, 90 * time.Second},
	"lossy": {proxy.Odds{Lose: .15, Late: .10, Reset: .05, Double: .30, LateFrom: lateFrom, LateTo: lateTo},
		time.Minute},
	"slow": {proxy.Odds{Late: .8, LateFrom: lateFrom, LateTo: lateTo}, 4 * time.Minute},
}
