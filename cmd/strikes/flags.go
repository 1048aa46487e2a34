package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	urfave "github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/counter"
)

const (
	defaultAMQP  = "amqp://guest:guest@localhost:5672/" //nolint:gosec // what RabbitMQ comes with
	defaultRedis = "redis://localhost:6379/0"
)

// env lets a flag be set by STRIKES_ and its name, then by the others.
func env(flag string, others ...string) urfave.ValueSourceChain {
	chain := urfave.ValueSourceChain{Chain: []urfave.ValueSource{
		variable("STRIKES_" + strings.ToUpper(strings.ReplaceAll(flag, "-", "_"))),
	}}
	for _, name := range others {
		chain.Chain = append(chain.Chain, variable(name))
	}
	return chain
}

// variable is an environment variable that counts as unset when it is empty, as compose files and shells leave them.
type variable string

func (v variable) Lookup() (string, bool) {
	value := os.Getenv(string(v))
	return value, value != ""
}

func (v variable) String() string   { return fmt.Sprintf("environment variable %q", string(v)) }
func (v variable) GoString() string { return fmt.Sprintf("variable(%q)", string(v)) }
func (v variable) IsFromEnv() bool  { return true }
func (v variable) Key() string      { return string(v) }

func amqpFlag() urfave.Flag {
	return &urfave.StringFlag{
		Name: "amqp-url", Sources: env("amqp-url", "AMQP_URL"), Value: defaultAMQP, DefaultText: "guest at localhost",
		Usage: "the broker, as `URL` amqp[s]://user:password@host:port/vhost, with parameters like ?heartbeat=SECONDS or ?cacertfile=FILE (all: README)",
	}
}

func redisFlag() urfave.Flag {
	return &urfave.StringFlag{
		Name: "redis-url", Sources: env("redis-url", "REDIS_URL"), Value: defaultRedis, DefaultText: "localhost",
		Usage: "the store, as `URL` redis[s]://, redis+sentinel:// or redis+cluster://user:password@host:port/db, with parameters like ?read_timeout=500ms (all: README)",
	}
}

func prefixFlag() urfave.Flag {
	return &urfave.StringFlag{
		Name: "prefix", Sources: env("prefix"), DefaultText: "strikes:1",
		Usage: "begins the store's keys with `PREFIX`; two brokers that share a store need one each",
	}
}

func jsonFlag(what string) urfave.Flag {
	return &urfave.BoolFlag{Name: "json", Usage: what}
}

// ageFlag takes a time like a urfave.DurationFlag, or a number of days.
type ageFlag = urfave.FlagBase[time.Duration, urfave.NoConfig, ageValue]

type ageValue struct{ to *time.Duration }

func (ageValue) Create(value time.Duration, to *time.Duration, _ urfave.NoConfig) urfave.Value {
	*to = value
	return &ageValue{to}
}

func (ageValue) ToString(value time.Duration) string { return value.String() }

func (a *ageValue) Set(s string) (err error) {
	*a.to, err = term.ParseAge(s)
	return err
}

func (a *ageValue) Get() any { return *a.to }

func (a *ageValue) String() string { return a.to.String() }

func brokerOf(c *urfave.Command) (*connect.Broker, error) {
	return connect.NewBroker(c.String("amqp-url"), c.FullName())
}

// storeOf opens the store and makes sure that it answers.
func storeOf(ctx context.Context, c *urfave.Command) (*counter.Counter, error) {
	return connect.OpenStore(ctx, c.String("redis-url"), c.String("prefix"))
}
