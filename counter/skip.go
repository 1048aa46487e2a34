package counter

import (
	"context"
	"fmt"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"
)

// Skip has one generation of a message dead-lettered at its next step, whatever its limit: now if it waits for its
// backoff. The record and the tombstone keep the Note; the tombstone has CauseSkipped and the reason of the Note. A
// running attempt may end: if it succeeds, the message is handled. Reset cancels a skip. A message that was skipped
// before keeps its first Note. After an error other than ErrNoRecord and ErrOver it may or may not be skipped; it is
// safe to repeat.
func (a *Admin) Skip(ctx context.Context, m Message, n Note) error {
	if err := checkSkip(m, n); err != nil {
		return err
	}
	n = keptNote(n)
	reply, err := a.step(ctx, stepSkip, Attempt{Message: m, Token: byOperator}, 0, n.By, n.Why)
	if err = refusal("skip", m, reply, err); err != nil {
		return err
	}
	if err = a.announceSkip(ctx, m); err != nil {
		return fmt.Errorf("counter: skip, queue %q: %w", m.Queue, a.controlError(m.VHost, m.Queue, err))
	}
	return nil
}

func checkSkip(m Message, n Note) error {
	if err := checkNote(n); err != nil {
		return fmt.Errorf("counter: skip, queue %q: %w", m.Queue, err)
	}
	return nil
}

// announceSkip lets the process that holds the message end its wait.
func (a *Admin) announceSkip(ctx context.Context, m Message) error {
	now, err := a.rdb.Time(ctx).Result()
	if err != nil {
		return err
	}
	key := a.opts.controlKeys(m.VHost, m.Queue)[2]
	until := now.Add(skipAnnounced)
	_, err = a.rdb.TxPipelined(ctx, func(tx redis.Pipeliner) error {
		tx.ZRemRangeByScore(ctx, key, "-inf", strconv.FormatInt(now.UnixMilli(), 10))
		tx.ZAdd(ctx, key, redis.Z{Score: float64(until.UnixMilli()), Member: member(m.ID, m.Generation)})
		tx.PExpire(ctx, key, skipAnnounced+time.Minute)
		return nil
	})
	return err
}
