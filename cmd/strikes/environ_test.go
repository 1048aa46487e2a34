package main

import (
	"slices"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/runner"
	"github.com/strikesmq/strikes/consumer"
)

// TestEnvironSetsNoFlag: a command may call strikes itself.
func TestEnvironSetsNoFlag(t *testing.T) {
	t.Parallel()
	env, _ := runner.Environ(nil, "q", amqp.Delivery{}, consumer.Attempt{})
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
		if strings.HasPrefix(name, "STRIKES_") && strings.HasSuffix(name, "_URL") != slices.Contains(runner.OwnSecrets,
			name) {
			t.Errorf("a command would see the password in %s", name)
		}
	}
}
