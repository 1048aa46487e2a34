package proxy

import (
	"math/rand/v2"
	"sync"
	"time"
)

// Odds are the chances, 0 to 1, of faults of a request. At most one of Lose, Late and Reset happens; Double is drawn
// apart.
type Odds struct {
	Lose   float64 // the reply is lost
	Late   float64 // the reply is late, by LateFrom to LateTo
	Reset  float64 // the connection is reset: before the request or before its reply, as often
	Double float64 // the server gets the request twice

	LateFrom, LateTo time.Duration
}

// Treat returns a function for NewStore, which draws the Treatment of each request. Connections share the draws: a
// seed repeats their sequence, but which request gets which draw depends on the order in which requests arrive.
func (o Odds) Treat(seed uint64) func(words []string) Treatment {
	var mu sync.Mutex
	rnd := rand.New(rand.NewPCG(seed, 0)) //nolint:gosec // to be repeated
	return func([]string) Treatment {
		mu.Lock()
		defer mu.Unlock()
		return o.draw(rnd)
	}
}

func (o Odds) draw(rnd *rand.Rand) Treatment {
	t := Treatment{Double: rnd.Float64() < o.Double}
	switch at := rnd.Float64(); {
	case at < o.Lose:
		t.Lose = Reply
	case at < o.Lose+o.Late:
		t.Late = o.LateFrom + time.Duration(rnd.Float64()*float64(o.LateTo-o.LateFrom))
	case at < o.Lose+o.Late+o.Reset:
		t.Reset = Request + Part(rnd.IntN(2))
	}
	return t
}
