package counter

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
)

// ErrPaused is wrapped by Pause if the queue is paused already, and ErrNotPaused by Resume if it is not: nothing is
// done.
var (
	ErrPaused    = errors.New("the queue is paused already")
	ErrNotPaused = errors.New("the queue is not paused")
)

// ConsumerState is a process that consumes a queue.
type ConsumerState struct {
	Consumer string // the process
	// when it read the Control of the queue, by the store's clock: once a second, unless it is dead or cut off
	Seen    time.Time
	Paused  bool    // it has read the pause of the queue, takes no deliveries and holds none
	Waiting Waiting // messages whose attempts are not counted, as of Seen; a report is forgotten after 3 s
}

//go:embed scripts/pause.lua
var pauseLua string

var setPaused = redis.NewScript(pauseLua)

// Pause stops every consumer of a queue within two seconds, until Resume. Consumers take no more deliveries and count
// nothing; running handlers finish. A pause for a message that holds the queue becomes the operator's, and lasts until
// Resume too. The Note is kept until Resume; its Why must not be empty. A pause ends if no consumer reads it for 30
// days, or if the store loses its memory. After an error of the store the queue may or may not be paused; it is safe to
// repeat.
func (a *Admin) Pause(ctx context.Context, vhost, queue string, n Note) error {
	if err := checkNote(n); err != nil {
		return fmt.Errorf("counter: pause, queue %q: %w", queue, err)
	}
	return a.setPaused(ctx, Message{VHost: vhost, Queue: queue}, true, n)
}

// Resume ends the pause of a queue. If a message holds the queue, its next step pauses it again. The Note may be empty.
// After an error of the store the queue may or may not be paused; it is safe to repeat.
func (a *Admin) Resume(ctx context.Context, vhost, queue string, n Note) error {
	return a.setPaused(ctx, Message{VHost: vhost, Queue: queue}, false, n)
}

func (c *client) setPaused(ctx context.Context, of Message, paused bool, n Note) error {
	if c.refuse != nil {
		return c.refuse
	}
	n = keptNote(n)
	key := c.opts.controlKeys(of.VHost, of.Queue)[:1]
	done, err := setPaused.Run(ctx, c.rdb, key, flag(paused), n.By, n.Why, rules.PauseTTL.Milliseconds()).Int()
	switch {
	case err != nil:
		err = c.controlError(of.VHost, of.Queue, err)
	case done == 0:
		err = notChanged(paused)
	}
	return pauseError(of.Queue, paused, err)
}

func notChanged(paused bool) error {
	if paused {
		return ErrPaused
	}
	return ErrNotPaused
}

func pauseError(queue string, paused bool, err error) error {
	switch {
	case err == nil:
		return nil
	case paused:
		return fmt.Errorf("counter: pause, queue %q: %w", queue, err)
	}
	return fmt.Errorf("counter: resume, queue %q: %w", queue, err)
}

// Paused returns the Note of a queue's pause; nil without an error if the queue is not paused.
func (a *Admin) Paused(ctx context.Context, vhost, queue string) (*Note, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	h, err := a.rdb.HGetAll(ctx, a.opts.controlKeys(vhost, queue)[0]).Result()
	if err != nil {
		return nil, fmt.Errorf("counter: paused, queue %q: %w", queue, a.controlError(vhost, queue, err))
	}
	if h["paused"] != "1" {
		return nil, nil //nolint:nilnil // none is no error
	}
	n := parseNote(h)
	return &n, nil
}

// Consumers returns the processes that consumed a queue within the last minute, sorted by Consumer. A process that has
// left is not among them. Compare Seen with Now: a process that was not seen for a few seconds is dead, or does not
// reach the store.
func (a *Admin) Consumers(ctx context.Context, vhost, queue string) ([]ConsumerState, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	paused, err := a.Paused(ctx, vhost, queue)
	if err != nil {
		return nil, err
	}
	by := &redis.ZRangeBy{Min: "-inf", Max: "+inf"}
	readers, err := a.rdb.ZRevRangeByScoreWithScores(ctx, a.opts.controlKeys(vhost, queue)[1], by).Result()
	if err != nil {
		return nil, fmt.Errorf("counter: consumers, queue %q: %w", queue, a.controlError(vhost, queue, err))
	}
	var out []ConsumerState
	var tokens []string
	for _, r := range readers {
		text, _ := r.Member.(string)
		if words := strings.SplitN(text, " ", 3); len(words) == 3 {
			c := ConsumerState{Consumer: words[2], Seen: time.UnixMilli(int64(r.Score)).UTC(), Paused: words[0] == "1"}
			out, tokens = append(out, c.since(paused)), append(tokens, words[1])
		}
	}
	held, err := a.readWaiting(ctx, vhost, queue, tokens)
	if err != nil {
		return nil, fmt.Errorf("counter: consumers, queue %q: %w", queue, a.controlError(vhost, queue, err))
	}
	for i := range held {
		out[i].Waiting = held[i]
	}
	slices.SortFunc(out, byConsumer)
	return out, nil
}

// since is the state with regard to the queue's pause, nil if there is none: a process may have stopped for an earlier
// one.
func (c ConsumerState) since(paused *Note) ConsumerState {
	c.Paused = c.Paused && paused != nil && !c.Seen.Before(paused.At)
	return c
}

func byConsumer(a, b ConsumerState) int {
	return cmp.Or(cmp.Compare(a.Consumer, b.Consumer), b.Seen.Compare(a.Seen))
}
