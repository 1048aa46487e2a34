package counter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/setting"
)

// MaxOverride is the largest number of retries that an Override can set. A larger one in the store counts as this.
const MaxOverride = 1000

// ErrOverride is wrapped by Limit if something else than this package wrote the override and consumers ignore it: set it
// again, or clear it.
var ErrOverride = errors.New("the override is ignored by consumers")

// Override is a limit that an operator set for a queue, in place of the one its consumers are configured with.
type Override struct {
	MaxRetries int // after the first failure, as consumer.Consumer has it; here 0, or less, is none
	Note
}

// Charges is the number of charges at which the override dead-letters.
func (o Override) Limit() int { return max(o.MaxRetries, 0) + 1 }

//go:embed scripts/limit.lua
var limitLua string

var setLimit = redis.NewScript(limitLua)

// overrides are what the steps accept as max_retries.
var overrides = regexp.MustCompile(`\A-?[0-9]+\z`)

// Limit returns the override of a queue, nil if there is none.
func (a *Admin) Limit(ctx context.Context, vhost, queue string) (*Override, error) {
	if a.refuse != nil {
		return nil, a.refuse
	}
	h, err := a.rdb.HGetAll(ctx, a.overrideKey(vhost, queue)).Result()
	if err != nil {
		return nil, fmt.Errorf("counter: limit, queue %q: %w", queue, a.limitError(vhost, queue, err))
	}
	text, set := h["max_retries"]
	if !set {
		return nil, nil //nolint:nilnil // none is no error, and no zero value of an override
	}
	if len(text) > 9 || !overrides.MatchString(text) {
		return nil, fmt.Errorf("counter: limit, queue %q: %w: max_retries is %.80q instead of an integer of at most 9 characters", queue, ErrOverride, text)
	}
	return &Override{MaxRetries: min(max(int(number(text)), 0), MaxOverride), Note: parseNote(h)}, nil
}

// SetLimit overrides what the consumers of a queue are configured with, from the next step of each message on and until it is
// cleared: there is no TTL. A message that has that many charges already is dead-lettered at its next step. An error leaves
// undecided whether it is set; it may be repeated.
func (a *Admin) SetLimit(ctx context.Context, vhost, queue string, o Override) error {
	if a.refuse != nil {
		return a.refuse
	}
	if err := o.validate(); err != nil {
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, err)
	}
	n := o.kept()
	err := setLimit.Run(ctx, a.rdb, []string{a.overrideKey(vhost, queue)}, strconv.Itoa(o.MaxRetries), n.By, n.Why).Err()
	if err != nil {
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, a.limitError(vhost, queue, err))
	}
	return nil
}

// ClearLimit takes a queue's override away, whatever it is, and reports whether there was one: the consumers' own limits are
// in force from the next step of each message on. An error leaves undecided whether it is gone; it may be repeated.
func (a *Admin) ClearLimit(ctx context.Context, vhost, queue string) (bool, error) {
	if a.refuse != nil {
		return false, a.refuse
	}
	n, err := a.rdb.Del(ctx, a.overrideKey(vhost, queue)).Result()
	if err != nil {
		return false, fmt.Errorf("counter: clear limit, queue %q: %w", queue, a.storeError(err))
	}
	return n > 0, nil
}

// limitError tells an override that is none from a store that failed.
func (c *client) limitError(vhost, queue string, err error) error {
	if isForeign(err) {
		return fmt.Errorf("%w: %q is no limit, and every step of the queue's messages fails: clear the limit, which removes it", ErrForeign, c.overrideKey(vhost, queue))
	}
	return c.storeError(err)
}

func (o Override) validate() error {
	if o.MaxRetries < 0 || o.MaxRetries > MaxOverride {
		return setting.New("MaxRetries", o.MaxRetries, fmt.Sprintf("0 to %d", MaxOverride))
	}
	return o.Note.validate()
}

func (c *client) overrideKey(vhost, queue string) string {
	return c.opts.keys(Message{VHost: vhost, Queue: queue}).override
}
