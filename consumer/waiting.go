package consumer

import (
	"time"

	"github.com/strikesmq/strikes/counter"
)

// uncountedSince says since when the attempts at a delivery were not counted, and why the last one was not.
type uncountedSince struct {
	since, at time.Time
	why       string
}

// hold is called after each attempt that is not counted, because no record shows such a message to operators.
func (k *control) hold(d *delivery) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = map[*delivery]uncountedSince{}
	}
	u, now := k.held[d], time.Now()
	if u.since.IsZero() {
		u.since = now
	}
	u.at, u.why = now, d.failed.text
	k.held[d] = u
}

// letGo is called once an attempt was counted, or the delivery is no longer held.
func (k *control) letGo(d *delivery) {
	if k == nil || d.uncounted == 0 {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, d)
}

// holds sums up what is held. The caller has locked k.mu.
func (k *control) holds(now time.Time) (h counter.Waiting) {
	var newest time.Time
	for _, u := range k.held {
		h.Messages++
		h.For = max(h.For, now.Sub(u.since))
		if !u.at.Before(newest) {
			newest, h.Why = u.at, u.why
		}
	}
	return h
}
