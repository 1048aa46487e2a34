package topology

import (
	"fmt"
	"time"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

const (
	defaultBackoff         = 30 * time.Second
	defaultConsumerTimeout = 30 * time.Minute // the broker's
	usualPrefetch          = 10
)

// consumersRule judges those who consume from the queue now.
func consumersRule(f facts, _ Need) []Finding {
	if f.vitals == nil {
		return nil
	}
	var auto, unbounded []apiConsumer
	for _, c := range f.vitals.consumers {
		switch {
		case !c.Acks:
			auto = append(auto, c)
		case c.Prefetch == 0:
			unbounded = append(unbounded, c)
		}
	}
	var out []Finding
	if len(auto) > 0 {
		out = append(out, Finding{
			Code: "auto-ack", Severity: Error,
			Seen: "consumers without acknowledgements: " + counted(auto, len(f.vitals.consumers)),
			Why:  "a message is gone the moment it is sent to such a consumer: it is neither retried nor dead-lettered",
			Fix:  "have it consume with autoAck=false and ack what it handled, or stop it",
		})
	}
	if len(unbounded) > 0 {
		out = append(out, Finding{
			Code: "no-prefetch", Severity: Warning,
			Seen: "consumers without a prefetch limit: " + counted(unbounded, len(f.vitals.consumers)),
			Why: "it takes the whole queue: other consumers get nothing, and when it dies everything it held counts as " +
				"returned, and as delivered before",
			Fix: fmt.Sprintf("have it set basic.qos, to %d for example", usualPrefetch),
		})
	}
	return out
}

// counted counts some consumers and names one of them.
func counted(some []apiConsumer, of int) string {
	return fmt.Sprintf("%d of %d (tag %q, connection %q)", len(some), of, some[0].Tag, some[0].Channel.Connection)
}

// consumerTimeoutRule judges whether what is prefetched behind a message that
// waits for its retry can be kept for so long.
func consumerTimeoutRule(f facts, need Need) []Finding {
	if f.vitals == nil || f.Type != queueinfo.Quorum && (f.Type != queueinfo.Classic || !f.Version.Before(4, 3)) {
		return nil // classic queues have no timeout from 4.3 on
	}
	backoff := need.MaxBackoff
	if backoff == 0 {
		backoff = defaultBackoff
	}
	prefetch, timeout := int64(usualPrefetch), f.consumerTimeout()
	for _, c := range f.vitals.consumers {
		if c.Acks {
			prefetch = max(prefetch, c.Prefetch)
		}
		if ms := c.timeout(); ms > 0 {
			timeout = min(timeout, milliseconds(ms))
		}
	}
	if timeout/time.Duration(prefetch) >= backoff {
		return nil
	}
	return []Finding{{
		Code: "consumer-timeout", Severity: Warning,
		Seen: fmt.Sprintf("a consumer may keep a message for %v, %d are prefetched, and each may wait %v for its retry", timeout, prefetch, backoff),
		Why:  "if several of them fail, the broker takes the last ones back and ends the consumer's channel",
		Fix:  fmt.Sprintf("lower the prefetch or the backoff, or raise the consumer timeout above %v", time.Duration(prefetch)*backoff),
	}}
}

// consumerTimeout is what argument and policy make it, else the usual one.
func (f facts) consumerTimeout() time.Duration {
	if ms, set := f.Smaller("x-consumer-timeout", "consumer-timeout"); set && ms > 0 {
		return milliseconds(ms)
	}
	return defaultConsumerTimeout
}

func milliseconds(n int64) time.Duration {
	return time.Duration(min(n, int64(1<<63-1)/int64(time.Millisecond))) * time.Millisecond
}

// messagesRule judges the messages that are in the queue now.
func messagesRule(f facts, need Need) []Finding {
	if f.vitals == nil {
		return nil
	}
	var out []Finding
	if transient := f.vitals.messages - f.vitals.persistent; f.Type == queueinfo.Classic && f.Durable && transient > 0 {
		out = append(out, Finding{
			Code: "transient-messages", Severity: Warning,
			Seen: fmt.Sprintf("messages that are not persistent: %d of %d", transient, f.vitals.messages),
			Why:  "a restart of the broker loses them, and their dead letters too",
			Fix:  "publish with delivery mode 2 (persistent)",
		})
	}
	if need.Ordered && f.vitals.priorities > 1 {
		out = append(out, Finding{
			Code: "priorities-used", Severity: Error,
			Seen: fmt.Sprintf("messages of %d priorities are in the queue", f.vitals.priorities),
			Why:  "messages of a higher priority overtake",
			Fix:  "publish all messages with the same priority, or none",
		})
	}
	return out
}
