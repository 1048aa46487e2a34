package main

import (
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

// FuzzEnviron shows that each property of a message is one variable, whatever the message holds.
func FuzzEnviron(f *testing.F) {
	f.Add("orders", "m1", "", "orders", "text/plain", "PATH=/bin")
	f.Add("a\nb", "\x00", "=", "A=B", "\xff", "STRIKES_QUEUE=other")
	f.Add("", "", "", "", "", "STRIKES_ATTEMPT")
	f.Fuzz(func(t *testing.T, queue, id, exchange, key, kind, base string) {
		d := amqp.Delivery{MessageId: id, Exchange: exchange, RoutingKey: key, ContentType: kind}
		env, omitted := environ([]string{base}, queue, d, consumer.Attempt{Number: 1})
		seen := map[string]bool{}
		for _, v := range env {
			name, value, _ := strings.Cut(v, "=")
			if strings.HasPrefix(name, "STRIKES_") && (seen[name] || strings.ContainsRune(value, 0) && v != base) {
				t.Errorf("%q is there twice, or cannot be", v)
			}
			seen[name] = true
		}
		if len(seen) < 10-len(omitted) {
			t.Errorf("%d variables, %v omitted", len(seen), omitted)
		}
	})
}
