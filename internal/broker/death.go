package broker

import (
	"math"
	"reflect"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Death is one entry of a message's x-death header. Any publisher can send such a header: do not trust its strings more
// than a body.
type Death struct {
	Queue    string // in which the message died
	Exchange string // to which it had been published
	Key      string // with which it had been published; the first, if there were several
	Reason   string // "rejected", "delivery_limit", "expired", "maxlen"
	Time     time.Time
	Count    int64
}

// ByConsumer reports whether a consumer caused the death, by a reject or by a delivery limit.
func (d Death) ByConsumer() bool { return d.Reason == "rejected" || d.Reason == "delivery_limit" }

// Deaths reads the x-death header, newest first. It ignores malformed entries.
func Deaths(headers amqp.Table) []Death {
	list, _ := headers["x-death"].([]any)
	var out []Death
	for _, entry := range list {
		t, _ := entry.(amqp.Table)
		d := Death{Count: Integer(t["count"])}
		d.Queue, _ = t["queue"].(string)
		d.Exchange, _ = t["exchange"].(string)
		d.Reason, _ = t["reason"].(string)
		d.Time, _ = t["time"].(time.Time)
		if keys, _ := t["routing-keys"].([]any); len(keys) > 0 {
			d.Key, _ = keys[0].(string)
		}
		if d.Queue != "" {
			out = append(out, d)
		}
	}
	return out
}

// NewestDeath is the newest death in this queue by a consumer, and whether there is one. An entry without a time is not
// the broker's, and would never change.
func NewestDeath(headers amqp.Table, queue string) (Death, bool) {
	for _, d := range Deaths(headers) {
		if d.Queue == queue && d.ByConsumer() {
			return d, !d.Time.IsZero()
		}
	}
	return Death{}, false
}

// maxInteger is the largest integer that every language reads exactly: 2^53-1.
const maxInteger = 1<<53 - 1

// Integer is a header's whole number, whatever its type: libraries of other languages do not tell the types apart. It
// is 0 if it is none, or beyond ±(2^53-1).
func Integer(v any) int64 {
	var n int64
	switch v := reflect.ValueOf(v); {
	case v.CanInt():
		n = v.Int()
	case v.CanUint():
		n = int64(min(v.Uint(), math.MaxInt64))
	case v.CanFloat() && v.Float() == math.Trunc(v.Float()) && math.Abs(v.Float()) <= maxInteger:
		n = int64(v.Float())
	}
	if n < -maxInteger || n > maxInteger {
		return 0
	}
	return n
}
