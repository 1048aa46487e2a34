package deadletter

import (
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Death is one entry of a message's x-death header: that it was dead-lettered.
// Any publisher can send such a header, so its strings are no more to be trusted
// than a body.
type Death struct {
	Queue    string // in which it was
	Exchange string // to which it had been published
	Key      string // with which it had been published; the first, if there were several
	Reason   string // "rejected", "delivery_limit", "expired", "maxlen"
	Time     time.Time
	Count    int64
}

// deaths reads the header, the newest first. What is of another form is passed
// over.
func deaths(headers amqp.Table) []Death {
	list, _ := headers["x-death"].([]any)
	var out []Death
	for _, entry := range list {
		t, ok := entry.(amqp.Table)
		if !ok {
			continue
		}
		var d Death
		d.Queue, _ = t["queue"].(string)
		d.Exchange, _ = t["exchange"].(string)
		d.Reason, _ = t["reason"].(string)
		d.Time, _ = t["time"].(time.Time)
		d.Count = integer(t["count"])
		if keys, _ := t["routing-keys"].([]any); len(keys) > 0 {
			d.Key, _ = keys[0].(string)
		}
		if d.Queue != "" {
			out = append(out, d)
		}
	}
	return out
}

// originOf is the death that made the message a dead letter of this queue: the
// newest by a consumer's doing, else the newest of any, but not one in the
// dead-letter queue itself.
func originOf(all []Death, deadLetterQueue string) Death {
	var newest Death
	for _, d := range all {
		if d.Queue == deadLetterQueue {
			continue
		}
		if d.Reason == "rejected" || d.Reason == "delivery_limit" {
			return d
		}
		if newest.Queue == "" {
			newest = d
		}
	}
	return newest
}

func integer(v any) int64 {
	switch n := v.(type) {
	case int64:
		return n
	case int32:
		return int64(n)
	case int16:
		return int64(n)
	case int:
		return int64(n)
	}
	return 0
}
