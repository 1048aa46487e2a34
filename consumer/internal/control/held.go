package control

import (
	"time"

	"github.com/strikesmq/strikes/counter"
)

// uncountedSince says since when the attempts at a delivery were not counted, and why the last one was not.
type uncountedSince struct {
	since, at time.Time
	why       string
}

// Hold is called after each attempt at a delivery that is not counted, because no record shows such a message to
// operators.
func (k *Control) Hold(delivery any, why string) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.held == nil {
		k.held = map[any]uncountedSince{}
	}
	u, now := k.held[delivery], time.Now()
	if u.since.IsZero() {
		u.since = now
	}
	u.at, u.why = now, why
	k.held[delivery] = u
}

// LetGo is called once an attempt was counted, or the delivery is no longer held.
func (k *Control) LetGo(delivery any) {
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.held, delivery)
}

// holds sums up the waiting deliveries. The caller has locked k.mu.
func (k *Control) holds(now time.Time) (h counter.Waiting) {
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
