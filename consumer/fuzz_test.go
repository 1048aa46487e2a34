package consumer

import (
	"math"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// FuzzFields gives a Consumer numbers of every size: it is refused with an error, or gets settings that can be worked
// with.
func FuzzFields(f *testing.F) {
	f.Add("orders", 3, 0, 1, 0, 0, int64(0), int64(0), int64(0))
	f.Add("", math.MinInt, -1, -1, -1, -1, int64(-1), int64(-1), int64(-1))
	f.Add("q", math.MaxInt, 99, math.MaxInt, math.MaxInt, math.MaxInt, int64(math.MaxInt64), int64(math.MaxInt64),
		int64(math.MaxInt64))
	f.Add("q", 1000, 2, 65535, 65535, 3, int64(15*time.Minute), int64(30*time.Minute), int64(math.MinInt64))
	f.Add("\x00", 0, 1, 65535, 1, 2, int64(1), int64(time.Minute), int64(1))
	f.Fuzz(func(t *testing.T, queue string, retries, retry, concurrency, prefetch, isolation int, handler, consuming,
		draining int64) {
		c := minimal()
		c.Queue, c.MaxRetries, c.Retry, c.Concurrency, c.Prefetch = queue, retries, RetryMode(retry), concurrency, prefetch
		c.Isolation = Isolation(isolation)
		c.HandlerTimeout, c.ConsumerTimeout, c.DrainTimeout = time.Duration(handler), time.Duration(consuming),
			time.Duration(draining)
		if c.validate(&amqp.Connection{}) != nil {
			return
		}
		s := newSession(c.withDefaults(), "", nil)
		switch set := s.Consumer; {
		case set.Queue == "" || s.vhost == "" || set.Name == "":
			t.Errorf("a name is empty: %+v", set)
		case set.Concurrency < 1 || set.Prefetch < 1 || set.Concurrency > 65535 || set.Prefetch > 65535:
			t.Errorf("%d handlers, a prefetch of %d", set.Concurrency, set.Prefetch)
		case s.limit() < 1 || s.limit() > maxMaxRetries+1:
			t.Errorf("a limit of %d", s.limit())
		case set.HandlerTimeout <= 0 || set.HandlerTimeout != math.MaxInt64 && set.HandlerTimeout > set.ConsumerTimeout/2:
			t.Errorf("handlers end after %v, deliveries after %v", set.HandlerTimeout, set.ConsumerTimeout)
		case startModes[set.Isolation] == 0 && set.Isolation != IsolationSuspects || set.Retry < RetryRequeue ||
			set.Retry > RetryInPlace:
			t.Errorf("isolation %d, retry %d", set.Isolation, set.Retry)
		}
		if d := DefaultBackoff(retries); d < 0 || d > backoffMost {
			t.Errorf("a backoff of %v after %d failed attempts", d, retries)
		}
	})
}
