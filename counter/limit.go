package counter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/setting"
)

// ErrOverride is wrapped by Admin.Limit if another program wrote the override and consumers ignore it. Set it again, or
// clear it.
var ErrOverride = errors.New("consumers ignore the override")

func checkOverride(o Override) error {
	if o.MaxRetries != nil && (*o.MaxRetries < 0 || *o.MaxRetries > MaxOverride) {
		return setting.New("MaxRetries", *o.MaxRetries, fmt.Sprintf("0 to %d", MaxOverride))
	}
	if o.MaxAge != nil && (*o.MaxAge < 0 || *o.MaxAge%time.Millisecond != 0) {
		return setting.New("MaxAge", *o.MaxAge, "0s or more, in whole milliseconds")
	}
	return checkNote(o.Note)
}

// errNoOverride refuses an Override that changes only the Note, for a queue that has no override.
var errNoOverride error = setting.New("MaxRetries", nil, fmt.Sprintf("0 to %d, because the queue has no override yet",
	MaxOverride))

//go:embed scripts/limit.lua
var limitLua string

var setLimit = redis.NewScript(limitLua)

// What the scripts accept as max_retries and as max_age.
var (
	overrides = regexp.MustCompile(`\A(-?[0-9]{1,8}|[0-9]{9})\z`)
	ages      = regexp.MustCompile(`\A[0-9]{1,13}\z`)
)

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
	retries, limited := h["max_retries"]
	age, aged := h["max_age"]
	o := &Override{Note: parseNote(h)}
	switch {
	case !limited && !aged:
		return nil, nil //nolint:nilnil // none is no error, and no zero value of an override
	case limited && !overrides.MatchString(retries):
		return nil, fmt.Errorf("%w: max_retries is %.80q (want an integer of at most 9 characters)", ErrOverride, retries)
	case aged && !ages.MatchString(age):
		return nil, fmt.Errorf("%w: max_age is %.80q (want milliseconds, at most 13 digits)", ErrOverride, age)
	}
	if limited {
		o.MaxRetries = new(min(max(int(number(retries)), 0), MaxOverride))
	}
	if aged {
		o.MaxAge = new(time.Duration(min(number(age), rules.MaxWaitMillis)) * time.Millisecond)
	}
	return o, nil
}

// SetLimit sets the override of a queue. Fields that are nil stay as they are. The override is in force from the next
// step of each message until it is cleared; it has no TTL. A message that has reached the limit, or is too old, is
// dead-lettered at its next step. After an error it may or may not be set; it is safe to repeat.
func (a *Admin) SetLimit(ctx context.Context, vhost, queue string, o Override) error {
	if a.refuse != nil {
		return a.refuse
	}
	if err := checkOverride(o); err != nil {
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, err)
	}
	retries, age := "", ""
	if o.MaxRetries != nil {
		retries = strconv.Itoa(*o.MaxRetries)
	}
	if o.MaxAge != nil {
		age = strconv.FormatInt(o.MaxAge.Milliseconds(), 10)
	}
	n := keptNote(o.Note)
	set, err := setLimit.Run(ctx, a.rdb, []string{a.overrideKey(vhost, queue)}, retries, n.By, n.Why, age).Int()
	switch {
	case err != nil:
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, a.limitError(vhost, queue, err))
	case set == 0:
		return fmt.Errorf("counter: set limit, queue %q: %w", queue, errNoOverride)
	}
	return nil
}

// ClearLimit removes the override of a queue, also an invalid one, and reports whether there was one. The consumers'
// own limits are in force from the next step of each message. After an error it may or may not be removed; it is safe
// to repeat.
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
		return fmt.Errorf("%w: %q is no limit, and every step of the queue's messages fails; clear the limit, which "+
			"removes it", ErrForeign, a.overrideKey(vhost, queue))
	}
	return a.storeError(err)
}

func (a *Admin) overrideKey(vhost, queue string) string {
	return a.opts.keys(Message{VHost: vhost, Queue: queue}).override
}
