package counter

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"regexp"
	"strconv"
	"time"

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

// The values that the scripts accept as max_retries and as max_age.
var (
	overrides = regexp.MustCompile(`\A(-?[0-9]{1,8}|[0-9]{9})\z`)
	ages      = regexp.MustCompile(`\A[0-9]{1,13}\z`)
)

// Limit returns the override of a queue, nil if there is none.
func (a *Admin) Limit(ctx context.Context, vhost, queue string) (*Override, error) {
	h, err := a.fields(ctx, Queue{vhost, queue}, docLimit)
	if err != nil {
		return nil, failed("limit", queue, limitError(err))
	}
	o, err := overrideOf(h)
	return o, failed("limit", queue, err)
}

// overrideOf reads an override. nil: there is none.
func overrideOf(h map[string]string) (*Override, error) {
	retries, limited := h["max_retries"]
	age, aged := h["max_age"]
	o := &Override{Note: parseNote(h)}
	switch {
	case !limited && !aged:
		return nil, nil
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
	if err := checkOverride(o); err != nil {
		return failed("set limit", queue, err)
	}
	n := keptNote(o.Note)
	err := a.insist(ctx, Queue{vhost, queue}, []string{docLimit}, func(now time.Time, docs []Doc) (Change, error) {
		d := docs[0]
		if d.Err != nil {
			return Change{}, limitError(d.Err)
		}
		fields := decodeFields(d.Data)
		if o.MaxRetries != nil {
			fields["max_retries"] = strconv.Itoa(*o.MaxRetries)
		}
		if o.MaxAge != nil {
			fields["max_age"] = decimal(o.MaxAge.Milliseconds())
		}
		if fields["max_retries"] == "" && fields["max_age"] == "" {
			return Change{}, errNoOverride
		}
		maps.Copy(fields, map[string]string{"by": n.By, "why": n.Why, "at": decimal(now.UnixMilli())})
		d.Data = encodeFields(fields)
		return Change{Docs: []Doc{d}}, nil
	})
	return failed("set limit", queue, err)
}

// ClearLimit removes the override of a queue, also an invalid one, and reports whether there was one. The consumers'
// own limits are in force from the next step of each message. After an error it may or may not be removed; it is safe
// to repeat.
func (a *Admin) ClearLimit(ctx context.Context, vhost, queue string) (was bool, err error) {
	err = a.insist(ctx, Queue{vhost, queue}, []string{docLimit}, func(_ time.Time, docs []Doc) (Change, error) {
		if was = docs[0].Version != "" || docs[0].Err != nil; !was {
			return Change{}, nil
		}
		return Change{Docs: []Doc{{Name: docLimit, Any: true}}}, nil
	})
	return was, failed("clear limit", queue, err)
}

// limitError adds to the error of a key that holds no override how to remove it.
func limitError(err error) error {
	if errors.Is(err, ErrForeign) {
		return fmt.Errorf("every step of the queue's messages fails; clear the limit, which removes it: %w", err)
	}
	return err
}
