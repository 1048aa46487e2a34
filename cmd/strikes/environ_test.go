package main

import (
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/consumer"
)

// TestEnvironSetsNoFlag: a command may call strikes itself.
func TestEnvironSetsNoFlag(t *testing.T) {
	t.Parallel()
	env, _ := environ(nil, "q", amqp.Delivery{}, consumer.Attempt{})
	var flags []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, cli.Variables(f)...) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(new(app).root())
	if !slices.Contains(flags, "STRIKES_AMQP_URL") {
		t.Fatalf("%q", flags)
	}
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(flags, name) {
			t.Errorf("%s is a flag's", name)
		}
	}
	for _, name := range flags {
		if strings.HasPrefix(name, "STRIKES_") && strings.HasSuffix(name, "_URL") != slices.Contains(ownSecrets,
			name) {
			t.Errorf("a command would see the password in %s", name)
		}
	}
}

func TestEnviron(t *testing.T) {
	base := []string{"PATH=/bin", "STRIKES_MESSAGE_ID=of another", "STRIKES_MAX_RETRIES=7", "STRIKES_ATTEMPT",
		"STRIKES_AMQP_URL=amqp://u:hush@h", "STRIKES_STORE_URL=redis://:hush@h", "STRIKES_MANAGEMENT_URL=http://u:hush@h",
		"AMQP_URL=amqp://h"}
	d := amqp.Delivery{MessageId: "a=b\n\x1b", Exchange: "x", RoutingKey: "k", ContentType: "text/plain",
		Redelivered: true}
	env, omitted := environ(base, "orders", d, consumer.Attempt{Number: 2, Last: 4, Token: "tok-1", Fence: 3})
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
	env, omitted := environ(base, "q", amqp.Delivery{MessageId: "a\x00b", RoutingKey: "\x00"}, consumer.Attempt{})
	if !slices.Equal(omitted, []string{"STRIKES_MESSAGE_ID", "STRIKES_ROUTING_KEY"}) ||
		slices.Contains(env, base[0]) || !slices.Contains(env, "STRIKES_QUEUE=q") {
		t.Errorf("omitted %q, environment %q", omitted, env)
	}
}
