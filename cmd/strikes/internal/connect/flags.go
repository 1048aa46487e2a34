package connect

import (
	"context"
	"strings"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
)

const (
	defaultAMQP  = "amqp://guest:guest@localhost:5672/" //nolint:gosec // the default user of RabbitMQ
	defaultRedis = "redis://localhost:6379/0"
)

// Flags name the servers of a command. The Add methods add them to it.
type Flags struct {
	AMQPURL, StoreURL, Prefix, ManagementURL string

	Cmd *cobra.Command // that has the flags
}

// add adds a flag that the environment may set, too, and that help leaves to its topic about servers. Help shows a text
// as its default.
func (f *Flags) add(cmd *cobra.Command, p *string, name, standard, shown, usage string, variables ...string) {
	f.Cmd = cmd
	flags := cmd.Flags()
	flags.StringVar(p, name, standard, usage)
	cli.FromEnvOr(flags, name, variables...)
	cli.DefaultText(flags, name, shown)
	cli.Server(flags, name)
}

// AddBroker adds --amqp-url.
func (f *Flags) AddBroker(cmd *cobra.Command) {
	f.add(cmd, &f.AMQPURL, "amqp-url", defaultAMQP, "guest at localhost",
		"the broker, as `URL` amqp[s]://user:password@host:port/vhost, with parameters like ?heartbeat=SECONDS or "+
			"?cacertfile=FILE (all: docs/cli.md)", "AMQP_URL")
}

// AddStore adds --store-url and --prefix.
func (f *Flags) AddStore(cmd *cobra.Command) {
	f.add(cmd, &f.StoreURL, "store-url", defaultRedis, "localhost",
		"the store, as `URL` redis[s]://, redis+sentinel://, redis+cluster://, or postgres:// or "+
			"mysql://user:password@host:port/db, with parameters like ?read_timeout=500ms (all: docs/cli.md)", "REDIS_URL")
	f.add(cmd, &f.Prefix, "prefix", "", "strikes:1",
		"the `PREFIX` of the store's keys; two brokers that share a store need different ones")
}

// AddManagement adds --management-url to a command that otherwise tries the API's usual address.
func (f *Flags) AddManagement(cmd *cobra.Command) {
	f.add(cmd, &f.ManagementURL, "management-url", "", "at the broker's host, its AMQP port + 10000, if it answers",
		"the broker's management API, which reports what AMQP cannot, as `URL` http://user:password@host:15672")
}

// AddRecords adds the flags that lead to the store's records of a queue. The URL of the broker names the virtual host.
func (f *Flags) AddRecords(cmd *cobra.Command) {
	f.AddStore(cmd)
	f.AddBroker(cmd)
}

// Broker is the broker that --amqp-url names, and its management API that of --management-url. Its connections have the
// command's name.
func (f *Flags) Broker() (*Broker, error) {
	b, err := NewBroker(f.AMQPURL, f.Cmd.CommandPath(), f.called("amqp-url"))
	if err != nil {
		return nil, err
	}
	b.managementCalled = f.called("management-url")
	if b.management = f.ManagementURL; b.management != "" {
		u, parameters, err := setting.ParseURL(b.management)
		if err != nil || u.Host == "" || u.Scheme != "http" && u.Scheme != "https" || len(parameters) > 0 {
			value := "another URL"
			if !strings.Contains(b.management, "://") {
				value = "one without http:// or https://"
			}
			return nil, cli.Misuse(&setting.FieldError{Field: b.managementCalled, Value: value,
				Want: "http[s]://user:password@host:15672"})
		}
	}
	return b, nil
}

// Store opens the store for an operator, who waits longer for a reply than a consumer does, and makes sure that it
// answers.
func (f *Flags) Store(ctx context.Context) (*counter.Counter, error) {
	return OpenStore(ctx, Patient(f.StoreURL), f.Prefix, f.called("store-url"))
}

// StoreUnasked is Store without asking whether the store is there.
func (f *Flags) StoreUnasked() (*counter.Counter, error) {
	return dialStore(Patient(f.StoreURL), f.Prefix, f.called("store-url"))
}

// StoreForSteps opens the store for a consumer, which repeats a step if the store is slow, and makes sure that it
// answers.
func (f *Flags) StoreForSteps(ctx context.Context) (*counter.Counter, error) {
	return OpenStore(ctx, f.StoreURL, f.Prefix, f.called("store-url"))
}

// called names the source of a flag's value; empty: its default.
func (f *Flags) called(name string) string {
	if !f.Changed(name) {
		return ""
	}
	return cli.Called(f.Cmd.Flags(), name)
}

// Changed reports whether the command line or the environment sets a flag.
func (f *Flags) Changed(name string) bool { return f.Cmd.Flags().Changed(name) }
