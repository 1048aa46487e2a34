package counter

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/printable"
)

// Waiting are messages that a process holds unacked because its attempts at them are not counted. They have no records.
type Waiting struct {
	Messages int
	For      time.Duration // how long the attempts at the message that is held for longest have not been counted
	Why      string        // the newest error; it may hold control characters
}

// waitingTTL is how long the store keeps a report of held messages. A process that holds some repeats it once a second.
const waitingTTL = 3 * time.Second

// waitingKey returns the key of the report of what a reader of a queue's control holds: "<messages> <ms> <why>".
func (o Options) waitingKey(vhost, queue, reader string) string {
	return o.queueKey(vhost, queue) + "waiting:" + reader
}

// kept returns what the store keeps of h.
func (h Waiting) kept() Waiting {
	if h.Messages <= 0 {
		return Waiting{}
	}
	return Waiting{h.Messages, max(h.For, 0).Truncate(time.Millisecond), printable.Cut(h.Why, maxWaitingReason)}
}

// reportWaiting writes what a reader holds, if it does.
func (c *client) reportWaiting(ctx context.Context, vhost, queue string, r Reader) error {
	h := r.Waiting.kept()
	if h.Messages == 0 || r.Left {
		return nil
	}
	text := fmt.Sprintf("%d %d %s", h.Messages, h.For.Milliseconds(), h.Why)
	return c.rdb.Set(ctx, c.opts.waitingKey(vhost, queue, r.Token), text, waitingTTL).Err()
}

// maxWaitingReason is how much is kept of the reason, in bytes.
const maxWaitingReason = 512

// readWaiting returns what some readers of a queue's control hold, in their order.
func (c *client) readWaiting(ctx context.Context, vhost, queue string, readers []string) ([]Waiting, error) {
	out := make([]Waiting, len(readers))
	if len(readers) == 0 {
		return out, nil
	}
	var keys []string
	for _, r := range readers {
		keys = append(keys, c.opts.waitingKey(vhost, queue, r))
	}
	texts, err := c.rdb.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, err
	}
	for i, v := range texts {
		if text, is := v.(string); is {
			out[i] = parseWaiting(text)
		}
	}
	return out, nil
}

// waitingTogether reads the reports of several processes.
func waitingTogether(reply any) (all Waiting) {
	texts, _ := reply.([]any)
	for _, v := range texts {
		text, _ := v.(string)
		h := parseWaiting(text)
		messages := all.Messages + h.Messages
		if h.For > all.For || all.Messages == 0 {
			all = h
		}
		all.Messages = messages
	}
	return all
}

// parseWaiting returns the zero value for what it cannot read.
func parseWaiting(text string) Waiting {
	words := strings.SplitN(text, " ", 3)
	if len(words) < 3 {
		return Waiting{}
	}
	n, err := strconv.Atoi(words[0])
	ms, err2 := strconv.ParseInt(words[1], 10, 64)
	if err != nil || err2 != nil || n <= 0 || ms < 0 {
		return Waiting{}
	}
	return Waiting{Messages: n, For: time.Duration(ms) * time.Millisecond, Why: words[2]}
}
