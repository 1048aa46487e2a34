package runner

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

func TestEnviron(t *testing.T) {
	base := []string{"PATH=/bin", "STRIKES_MESSAGE_ID=of another", "STRIKES_MAX_RETRIES=7", "STRIKES_ATTEMPT",
		"STRIKES_AMQP_URL=amqp://u:hush@h", "STRIKES_REDIS_URL=redis://:hush@h", "STRIKES_MANAGEMENT_URL=http://u:hush@h",
		"AMQP_URL=amqp://h"}
	d := amqp.Delivery{MessageId: "a=b\n\x1b", Exchange: "x", RoutingKey: "k", ContentType: "text/plain",
		Redelivered: true}
	env, omitted := Environ(base, "orders", d, consumer.Attempt{Number: 2, Last: 4, Token: "tok-1", Fence: 3})
	want := []string{
		"PATH=/bin", "STRIKES_MAX_RETRIES=7", "AMQP_URL=amqp://h", "STRIKES_ATTEMPT=2", "STRIKES_LAST=4",
		"STRIKES_MESSAGE_ID=a=b\n\x1b",
		"STRIKES_QUEUE=orders", "STRIKES_EXCHANGE=x", "STRIKES_ROUTING_KEY=k", "STRIKES_CONTENT_TYPE=text/plain",
		"STRIKES_REDELIVERED=true", "STRIKES_TOKEN=tok-1", "STRIKES_FENCE=3",
	}
	if diff := cmp.Diff(want, env); diff != "" || omitted != nil {
		t.Errorf("omitted %q, environment (-want +got):\n%s", omitted, diff)
	}
}

func TestEnvironOmitsNUL(t *testing.T) {
	base := []string{"STRIKES_MESSAGE_ID=of another"}
	env, omitted := Environ(base, "q", amqp.Delivery{MessageId: "a\x00b", RoutingKey: "\x00"}, consumer.Attempt{})
	if diff := cmp.Diff([]string{"STRIKES_MESSAGE_ID", "STRIKES_ROUTING_KEY"}, omitted); diff != "" {
		t.Errorf("omitted (-want +got):\n%s", diff)
	}
	if slices.Contains(env, "STRIKES_MESSAGE_ID=of another") || !slices.Contains(env, "STRIKES_QUEUE=q") {
		t.Errorf("environment: %q", env)
	}
}
