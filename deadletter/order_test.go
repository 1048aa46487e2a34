package deadletter

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// heldQueue orders returned messages as a quorum queue does. Those of a closed channel go behind those that were
// returned before, and come before those that never were.
type heldQueue struct{ returned, fresh []int }

func (q *heldQueue) take(n int) (out []int) {
	for range n {
		from := &q.returned
		if len(*from) == 0 {
			from = &q.fresh
		}
		if len(*from) == 0 {
			break
		}
		out = append(out, (*from)[0])
		*from = (*from)[1:]
	}
	return out
}

// browsePart takes n and then the messages of keepOrder's steps, and gives all back.
func (q *heldQueue) browsePart(returns []int64, n int) (consumers int) {
	held := q.take(n)
	consumers = 1
	for s := (step{}); returns[held[len(held)-1]] > 0 && len(q.returned)+len(q.fresh) > 0; consumers++ {
		s = s.next(returns[held[len(held)-1]])
		held = append(held, q.take(s.prefetch(len(q.returned)+len(q.fresh), consumers))...)
	}
	for _, m := range held {
		returns[m]++
	}
	q.returned = append(q.returned, held...)
	return consumers
}

// TestStepsKeepTheOrder browses a model of a queue over and over. The order must stay, and with one bound a Browse must
// not cost more and more.
func TestStepsKeepTheOrder(t *testing.T) {
	const all, times = 100_000, 100
	for _, tc := range []struct {
		what  string
		bound func(int) int
		most  int // that may be returned at the end
	}{
		{"one bound", func(int) int { return 5 }, 5 + times},
		{"any bound", func(int) int { return 1 + rand.IntN(60) }, all},
		{"one long Browse", func(i int) int { return max(5, 3000*(1-i)) }, all},
		{"bounds that fall", func(i int) int { return 1 + times - i }, all},
	} {
		q, returns := heldQueue{}, make([]int64, all)
		for m := range all {
			q.fresh = append(q.fresh, m)
		}
		want := slices.Clone(q.fresh)
		for i := range times {
			if consumers := q.browsePart(returns, tc.bound(i)); consumers > mostConsumers {
				t.Fatalf("%s: Browse %d takes %d consumers", tc.what, i, consumers)
			}
		}
		if n := len(q.returned); n > tc.most {
			t.Errorf("%s: %d Browses leave %d returned", tc.what, times, n)
		}
		q.browsePart(returns, all)
		if consumers := q.browsePart(returns, 5); consumers > mostConsumers || len(q.fresh) > 0 {
			t.Errorf("%s: after a whole Browse %d consumers, and %d not returned", tc.what, consumers, len(q.fresh))
		}
		if !slices.Equal(q.returned, want) {
			t.Errorf("%s: the order is lost", tc.what)
		}
	}
}

// TestStepsReachTheEnd has consumers that bring as little as they may.
func TestStepsReachTheEnd(t *testing.T) {
	for _, tc := range []struct{ all, size int }{{1, 0}, {100, 1 << 20}, {100_000, 0}, {100_000, 64 << 10},
		{1_500_000, 10}} {
		left, consumers := tc.all, 0
		for ; left > 0; consumers++ {
			left -= stepFor(1, left, tc.size, consumers)
		}
		if consumers > mostConsumers {
			t.Errorf("%+v: %d consumers", tc, consumers)
		}
	}
}

// TestConsumersTakeMore: each brings more than the one before, as far as memory and AMQP allow.
func TestConsumersTakeMore(t *testing.T) {
	for _, tc := range []struct {
		what                   string
		read, ready, consumers int
		want                   int
	}{
		{"the first of many", 0, 100_000, 0, firstPrefetch},
		{"few", 0, 3, 0, 3},
		{"as many as were read", 1000, 100_000, 6, 1000},
		{"the last of most", 1000, 1200, 6, 200},
		{"nothing there", 0, 0, 0, 1},
		{"as many as memory has room for", 20_000, 100_000, 10, mostWaiting / (100 + besideBody)},
		{"more, as consumers are few", firstPrefetch, 1_000_000, 1, (1_000_000-firstPrefetch)/(mostConsumers-1) + 1},
		{"no more than AMQP allows", firstPrefetch, 1 << 30, 1, largestPrefetch},
	} {
		s := &session{read: tc.read, ready: tc.ready, bytes: 100 * tc.read}
		if got := s.more(tc.consumers); got != tc.want {
			t.Errorf("%s: %d, want %d", tc.what, got, tc.want)
		}
	}
}
