package counter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"
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
	if a.refuse != nil {
		return Blocked{}, a.refuse
	}
	keys := a.opts.lanesKeys(vhost, queue)
	var held *redis.IntCmd
	var counts *redis.MapStringStringCmd
	var now *redis.TimeCmd
	_, err := a.rdb.Pipelined(ctx, func(p redis.Pipeliner) error {
		held, counts, now = p.ZCard(ctx, keys[0]), p.HGetAll(ctx, keys[2]), p.Time(ctx)
		return nil
	})
	if err != nil {
		return Blocked{}, fmt.Errorf("counter: in blocked lanes, queue %q: %w", queue, a.laneError(keys, err))
	}
	b := Blocked{Lanes: held.Val()}
	if b.Lanes == 0 {
		return b, nil
	}
	b.Count = max(number(counts.Val()["count"]), 0)
	for name, n := range counts.Val() {
		second, is := strings.CutPrefix(name, "s")
		at, err := strconv.ParseInt(second, 10, 64)
		if is && err == nil && recent > 0 && now.Val().Unix()-at <= int64(recent/time.Second) {
			b.Recent += number(n)
		}
	}
	b.Recent = min(b.Recent, b.Count)
	return b, nil
}
