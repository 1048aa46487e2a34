package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/urfave/cli/v3"
)

const (
	defaultAMQP  = "amqp://guest:guest@localhost:5672/" //nolint:gosec // what RabbitMQ comes with
	defaultRedis = "redis://localhost:6379/0"
)

// env lets a flag be set by STRIKES_ and its name, then by the others.
func env(flag string, others ...string) cli.ValueSourceChain {
	chain := cli.ValueSourceChain{Chain: []cli.ValueSource{
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

func amqpFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "amqp-url", Sources: env("amqp-url", "AMQP_URL"), Value: defaultAMQP, DefaultText: "guest at localhost",
		Usage: "the broker, as `URL` amqp[s]://user:password@host:port/vhost, with parameters like ?heartbeat=SECONDS or ?cacertfile=FILE (all: README)",
	}
}

func redisFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "redis-url", Sources: env("redis-url", "REDIS_URL"), Value: defaultRedis, DefaultText: "localhost",
		Usage: "the store, as `URL` redis[s]://, redis+sentinel:// or redis+cluster://user:password@host:port/db, with parameters like ?read_timeout=500ms (all: README)",
	}
}

func prefixFlag() cli.Flag {
	return &cli.StringFlag{
		Name: "prefix", Sources: env("prefix"), DefaultText: "strikes:1",
		Usage: "begins the store's keys with `PREFIX`; two brokers that share a store need one each",
	}
}

func jsonFlag(what string) cli.Flag {
	return &cli.BoolFlag{Name: "json", Usage: what}
}
