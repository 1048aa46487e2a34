package inspect

import (
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/broker"
)

const (
	defaultBackoff         = 30 * time.Second
	defaultConsumerTimeout = 30 * time.Minute // the broker's
	usualPrefetch          = 10
)

// consumersRule judges the present consumers of the queue.
func consumersRule(f Facts, _ Need, report func(Finding)) {
	if f.Vitals == nil {
		return
	}
	var auto, unbounded, prior []broker.Consumer
	for _, c := range f.Vitals.Consumers {
		switch {
		case !c.Acks:
			auto = append(auto, c)
		case c.Prefetch == 0:
			unbounded = append(unbounded, c)
		}
		if c.Priority() != 0 {
			prior = append(prior, c)
		}
	}
	if len(auto) > 0 {
		report(Say("auto-ack", Vars{"consumers": counted(auto, len(f.Vitals.Consumers))}))
	}
	if len(unbounded) > 0 {
		report(Say("no-prefetch", Vars{"consumers": counted(unbounded, len(f.Vitals.Consumers)),
			"prefetch": usualPrefetch}))
	}
	// Measured on 4.3.6; neither 3.10.8 nor 4.0.5 stops so (TestGhostOfAConsumerWithAPriority).
	if len(prior) > 0 && f.Type == broker.Quorum && f.SingleActive() && !f.Version.Before(4, 3) {
		report(Say("consumer-priority", Vars{"consumers": counted(prior, len(f.Vitals.Consumers))}))
	}
}

// counted counts some consumers and names one of them.
func counted(some []broker.Consumer, of int) string {
	return fmt.Sprintf("%d of %d (tag %q, connection %q)", len(some), of, some[0].Tag, some[0].Connection())
}

// consumerTimeoutRule judges whether messages prefetched behind one that waits for its retry can be held so long.
func consumerTimeoutRule(f Facts, need Need, report func(Finding)) {
	if f.Vitals == nil || f.Type != broker.Quorum && (f.Type != broker.Classic || !f.Version.Before(4, 3)) {
		return // classic queues have no timeout from 4.3 on
	}
	backoff := need.MaxBackoff
	if backoff == 0 {
		backoff = defaultBackoff
	}
	prefetch, timeout := int64(usualPrefetch), defaultConsumerTimeout
	if ms, set := f.Smaller(broker.ArgConsumerTimeout); set && ms > 0 {
		timeout = broker.Milliseconds(ms)
	}
	for _, c := range f.Vitals.Consumers {
		if c.Acks {
			prefetch = max(prefetch, c.Prefetch)
		}
		if t := c.Timeout(); t > 0 {
			timeout = min(timeout, t)
		}
	}
	if timeout/time.Duration(prefetch) < backoff {
		report(Say("consumer-timeout", Vars{
			"timeout": timeout, "prefetch": prefetch, "backoff": backoff, "want": time.Duration(prefetch) * backoff,
		}))
	}
}

// messagesRule judges the messages that are in the queue now.
func messagesRule(f Facts, need Need, report func(Finding)) {
	if f.Vitals == nil {
		return
	}
	v := f.Vitals
	if transient := v.Bytes - v.PersistentBytes; f.Type == broker.Classic && f.Durable && transient > 0 {
		report(Say("transient-messages", Vars{"n": transient, "of": v.Bytes}))
	}
	if need.Ordered && v.Priorities > 1 {
		report(Say("priorities-used", Vars{"n": v.Priorities}))
	}
}
