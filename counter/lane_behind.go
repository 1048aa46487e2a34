package counter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

//go:embed scripts/lane_behind.lua
var laneBehindLua string

var countBehind = redis.NewScript(laneBehindLua)

// Behind are the dead letters of held lanes that were dead-lettered without an attempt, behind another of their lane. They have no
// tombstone.
type Behind struct {
	Lanes  int64 // that are held
	Count  int64
	Recent int64 // of Count: their lanes had a step, or were renewed, so lately that they may be on their way
}

// Behind counts the dead letters of a queue that are behind others in held lanes. Those of a lane whose last step was less than recent
// ago count as Recent.
func (a *Admin) Behind(ctx context.Context, vhost, queue string, recent time.Duration) (Behind, error) {
	if a.refuse != nil {
		return Behind{}, a.refuse
	}
	keys := a.opts.lanesKeys(vhost, queue)
	err := a.rdb.Get(ctx, keys[1]).Err() // spares the users who hold no lanes the permission for scripts
	if errors.Is(err, redis.Nil) {
		return Behind{}, nil
	}
	var b Behind
	for at := int64(0); err == nil; at += lanesListed {
		var n []int64
		n, err = countBehind.Run(ctx, a.rdb, keys, at, lanesListed, laneTTL.Milliseconds(), recent.Milliseconds()).Int64Slice()
		if err != nil {
			break
		}
		b.Lanes, b.Count, b.Recent = b.Lanes+n[0], b.Count+n[1], b.Recent+n[2]
		if n[0] < lanesListed {
			return b, nil
		}
	}
	return Behind{}, fmt.Errorf("counter: behind held lanes, queue %q: %w", queue, a.laneError(keys, err))
}
