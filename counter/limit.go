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

// ErrOverride is wrapped by Admin.Limit if another program wrote the override and consumers ignore it. Set it again, or clear it.
var ErrOverride = errors.New("consumers ignore the override")

// Override is a limit that an operator set for a queue. It replaces the one in the consumers' configuration.
type Override struct {
	// MaxRetries is the number of retries after the first failure: 0 to MaxOverride, where 0 is none. SetLimit with nil
	// changes only the Note of an existing override. Admin.Limit never returns nil.
	MaxRetries *int
	Note
}

// Limit is the number of counted attempts at which the override dead-letters a message; 0 if it leaves the limit unchanged.
func (o *Override) Limit() int {
	if o == nil || o.MaxRetries == nil {
		return 0
	}
	return max(*o.MaxRetries, 0) + 1
}

func (o *Override) validate() error {
	if o.MaxRetries != nil && (*o.MaxRetries < 0 || *o.MaxRetries > MaxOverride) {
		return setting.New("MaxRetries", *o.MaxRetries, fmt.Sprintf("0 to %d", MaxOverride))
	}
	return o.Note.validate()
}

// errNoOverride refuses an Override without MaxRetries for a queue that has no override.
var errNoOverride error = setting.New("MaxRetries", nil, fmt.Sprintf("0 to %d, because the queue has no override yet", MaxOverride))

//go:embed scripts/limit.lua
var limitLua string

var setLimit = redis.NewScript(limitLua)

// overrides are the values of max_retries that the scripts accept.
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
	o, err := overrideOf(h)
	if err != nil {
		return nil, fmt.Errorf("counter: limit, queue %q: %w", queue, err)
	}
	return o, nil
}

// overrideOf reads an override. nil: there is none.
func overrideOf(h map[string]string) (*Override, error) {
	text, set := h["max_retries"]
	if !set {
		return nil, nil //nolint:nilnil // none is no error, and no zero value of an override
	}
	if len(text) > 9 || !overrides.MatchString(text) {
		return nil, fmt.Errorf("%w: max_retries is %.80q (want an integer of at most 9 characters)", ErrOverride, text)
	}
	return &Override{MaxRetries: new(min(max(int(number(text)), 0), MaxOverride)), Note: parseNote(h)}, nil
}

// SetLimit sets the override of a queue. It is in force from the next step of each message until it is cleared; it has no TTL.
// A message with that many counted attempts is dead-lettered at its next step. After an error it may or may not be set; it is
// safe to repeat.
func (a *Admin) SetLimit(ctx context.Context, vhost, queue string, o Override) error {
	if a.refuse != nil {
		return a.refuse
	}
	if err := o.validate(); err != nil {
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, err)
	}
	retries := ""
	if o.MaxRetries != nil {
		retries = strconv.Itoa(*o.MaxRetries)
	}
	n := o.kept()
	set, err := setLimit.Run(ctx, a.rdb, []string{a.overrideKey(vhost, queue)}, retries, n.By, n.Why).Int()
	switch {
	case err != nil:
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, a.limitError(vhost, queue, err))
	case set == 0:
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, errNoOverride)
	}
	return nil
}

// ClearLimit removes the override of a queue, also an invalid one, and reports whether there was one. The consumers' own limits
// are in force from the next step of each message. After an error it may or may not be removed; it is safe to repeat.
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

// limitError distinguishes a key that holds no override from a failed store.
func (a *Admin) limitError(vhost, queue string, err error) error {
	if isForeign(err) {
		return fmt.Errorf("%w: %q is no limit, and every step of the queue's messages fails; clear the limit, which removes it", ErrForeign, a.overrideKey(vhost, queue))
	}
	return a.storeError(err)
}

func (a *Admin) overrideKey(vhost, queue string) string {
	return a.opts.keys(Message{VHost: vhost, Queue: queue}).override
}
