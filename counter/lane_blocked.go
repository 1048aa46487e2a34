package counter

import (
	"context"
	"time"
)

// Blocked are the dead letters of blocked lanes that were dead-lettered without an attempt, behind another of their
// lane. They have no tombstone.
type Blocked struct {
	Lanes  int64 // that are blocked
	Count  int64
	Recent int64 // of Count: so late that they may be on their way
}

// Blocked counts the dead letters of a queue that are behind others in blocked lanes. It costs the same however many
// they are. Those that were dead-lettered less than recent ago, a minute at most, count as Recent.
func (a *Admin) Blocked(ctx context.Context, vhost, queue string, recent time.Duration) (Blocked, error) {
	b, err := a.blocked(ctx, Queue{vhost, queue}, recent)
	return b, failed("in blocked lanes", queue, err)
}

func (a *Admin) blocked(ctx context.Context, of Queue, recent time.Duration) (b Blocked, err error) {
	lanes, err := a.blockedLanes(ctx, of)
	if err != nil || lanes == 0 {
		return Blocked{}, err
	}
	now, counts, err := a.text(ctx, of, docLanesBlocked)
	if err != nil {
		return Blocked{}, err
	}
	b = Blocked{Lanes: int64(lanes), Count: max(number(decodeFields(counts)["count"]), 0)}
	if recent > 0 && b.Count > 0 {
		var docs []Doc
		_, docs, err = a.store.Load(ctx, of, lateIn(now), lateIn(now.Add(-lateKept)))
		for _, d := range docs {
			for second, n := range decodeFields(d.Data) {
				if now.Unix()-number(second) <= int64(recent/time.Second) {
					b.Recent += number(n)
				}
			}
		}
		b.Recent = min(b.Recent, b.Count)
	}
	return b, err
}
