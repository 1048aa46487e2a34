package bench

import (
	"cmp"
	"errors"
	"flag"
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/topology"
)

// What all contestants have in common.
const (
	prefetch = 100
	bodySize = 256 // bytes
	retries  = 3
)

// config is what the flags say.
type config struct {
	amqpURL          string
	only             []string
	types            []topology.Type
	failing          []int // percent
	messages, rounds int
	concurrency      int
	time             time.Duration
}

func parseFlags(args []string) (config, error) {
	usual := slices.DeleteFunc(contests(), func(name string) bool { return name == stored })
	c := config{only: usual, types: []topology.Type{topology.Classic, topology.Quorum}, failing: []int{0, 1, 10}}
	f := flag.NewFlagSet("bench", flag.ContinueOnError)
	f.StringVar(&c.amqpURL, "amqp-url", "", "the broker, as `URL`; empty: AMQP_URL, or a private one")
	f.Func("only", "the contests `NAME,…` of "+strings.Join(contests(), ", ")+" (default all but the last)", c.setOnly)
	f.Func("type", "of the queues: `TYPE,…` (default classic,quorum)", c.setTypes)
	f.Func("failing", "of the messages, `PERCENT,…` (default 0,1,10)", c.setFailing)
	f.IntVar(&c.messages, "messages", 3000, "`NUMBER` in each queue")
	f.IntVar(&c.rounds, "rounds", 5, "`NUMBER` that count; one before them warms up")
	f.IntVar(&c.concurrency, "concurrency", 8, "`NUMBER` of handlers in parallel where messages fail")
	f.DurationVar(&c.time, "time", 2*time.Minute, "`LIMIT` of the whole bench, about: it does fewer rounds to keep it")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	c.amqpURL = cmp.Or(c.amqpURL, os.Getenv("AMQP_URL"))
	return c, c.validate(f)
}

func list(text string) []string {
	return strings.FieldsFunc(text, func(r rune) bool { return r == ',' || r == ' ' })
}

func (c *config) setOnly(text string) error {
	c.only = list(text)
	for _, name := range c.only {
		if !slices.Contains(contests(), name) {
			return fmt.Errorf("unknown contest %q", name)
		}
	}
	return nil
}

func (c *config) setTypes(text string) error {
	c.types = nil
	for _, name := range list(text) {
		kind := topology.Type(name)
		if kind != topology.Quorum && kind != topology.Classic {
			return fmt.Errorf("unknown queue type %q, want classic, quorum or both", name)
		}
		c.types = append(c.types, kind)
	}
	return nil
}

func (c *config) setFailing(text string) error {
	c.failing = nil
	for _, part := range list(text) {
		percent, err := strconv.Atoi(strings.TrimSuffix(part, "%"))
		if err != nil || percent < 0 || percent > 100 {
			return fmt.Errorf("%q is not a percentage, want 0 to 100", part)
		}
		c.failing = append(c.failing, percent)
	}
	return nil
}

func (c config) validate(f *flag.FlagSet) error {
	for _, limit := range []struct {
		flag               string
		value, least, most int
	}{
		{"messages", c.messages, 100, 1_000_000}, {"rounds", c.rounds, 1, 100}, {"concurrency", c.concurrency, 1, prefetch},
	} {
		if limit.value < limit.least || limit.value > limit.most {
			return fmt.Errorf("-%s must be %d to %d, got %d", limit.flag, limit.least, limit.most, limit.value)
		}
	}
	given := false
	f.Visit(func(set *flag.Flag) { given = given || set.Name == "only" })
	switch {
	case c.time <= 0:
		return fmt.Errorf("-time must be positive, got %v", c.time)
	case len(c.only) == 0 || len(c.types) == 0 || len(c.failing) == 0:
		return errors.New("-only, -type and -failing must name at least one each")
	case given && slices.Contains(c.only, orderedFailing) && slices.Max(c.failing) == 0:
		return fmt.Errorf("contest %s needs a percentage above 0 in -failing", orderedFailing)
	}
	return nil
}
