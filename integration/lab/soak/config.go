package soak

import (
	"errors"
	"flag"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/topology"
)

// config has the values of the flags.
type config struct {
	messages, faults      int
	killers, hangs        int
	plain                 bool
	handlerTimeout        time.Duration
	store                 string
	storeFaults           string
	kind                  string
	seed                  uint64
	only                  string
	languages             []string
	concurrency, prefetch int
	processes             int
	backlog               int // messages in the queue at which publishing waits; 0: publish all, then consume
	ordered, requeue      bool
	lanes                 int
	outage                time.Duration
	broker                rig.Options
}

const (
	consumerTimeout = time.Minute
	drainTimeout    = 5 * time.Second
	firstBackoff    = 10 * time.Millisecond
	mostBackoff     = 500 * time.Millisecond
	maxRetries      = 3
)

func parseFlags(args []string) (config, error) {
	c := config{languages: []string{inGo}, backlog: 1000}
	f := flag.NewFlagSet("soak", flag.ExitOnError)
	f.IntVar(&c.messages, "messages", 20000, "messages to publish")
	f.IntVar(&c.faults, "faults", -1, "faults to inject, spread over the run; -1: 24, or none with -store-faults")
	f.IntVar(&c.killers, "killers", -1, "messages that kill every process that runs them; -1: one in 2,000")
	f.IntVar(&c.hangs, "hangs", -1, "messages whose handlers pass their deadline; -1: one in 2,000")
	f.BoolVar(&c.plain, "plain", false, "all other messages succeed, after 20 to 60 ms")
	f.DurationVar(&c.handlerTimeout, "handler-timeout", 2*time.Second, "of the consumers")
	f.StringVar(&c.store, "store", rig.Redis, "`kind` of the store: redis, postgres or mysql, which is a MariaDB")
	f.StringVar(&c.storeFaults, "store-faults", "", "faults of requests to the store, and of their replies, until "+
		"the queue is drained: late, lossy or slow")
	f.StringVar(&c.kind, "type", string(topology.Quorum),
		"of the queue: quorum or classic; that of its dead letters is always a quorum queue")
	f.Uint64Var(&c.seed, "seed", rand.Uint64N(1<<32), "of messages and faults; if none, random") //nolint:gosec // printed
	f.StringVar(&c.only, "only", "", "inject faults of these `kinds` only, separated by commas; one that is named twice "+
		"comes twice as often")
	rig.List(f, &c.languages, "languages", "of the consumer processes, in turn. There are three processes, or one for "+
		"each language if you name more", inGo, "python", "node", inHTTP)
	f.IntVar(&c.concurrency, "concurrency", 16, "handlers in parallel, in each")
	f.IntVar(&c.prefetch, "prefetch", 0, "deliveries given to each; 0: the consumer's default")
	f.BoolVar(&c.ordered, "ordered", false, "ordered consumers of a single-active-consumer queue, which is filled "+
		"beforehand: check the order")
	f.BoolVar(&c.requeue, "requeue", false, "with -ordered: return a message that failed to the queue, before its retry")
	f.IntVar(&c.lanes, "lanes", 1, "with -ordered: keep the order in so many lanes, with -concurrency handlers in "+
		"parallel; 1: one handler")
	f.DurationVar(&c.outage, "outage", 0, "a service that all handlers call is away once, for so long; consumers have a "+
		"breaker and the default backoff, 5 % of the messages always fail, and so do 25 in a row when the outage begins")
	c.broker.Flags(f, "the queues soak and soak.dlq")
	if err := rig.Parse(f, args); err != nil {
		return c, err
	}
	c.settle()
	return c, c.validate()
}

// settle completes the settings that follow from others.
func (c *config) settle() {
	c.processes = max(3, len(c.languages))
	switch {
	case c.outage != 0: // it is the only fault, and the queue is full before the consumers start
		c.faults, c.backlog, c.killers, c.hangs = 1, 0, 0, 0
	case c.faults < 0 && c.storeFaults != "":
		c.faults = 0
	case c.faults < 0:
		c.faults = 24
	}
	// Killers and hangs would stop a lane for long, so by default an ordered soak has none. After some faults a consumer
	// does not know immediately that it was given up, and the order of its attempts is not promised then.
	if c.ordered {
		c.backlog, c.killers, c.hangs = 0, max(c.killers, 0), max(c.hangs, 0)
		if c.lanes == 1 {
			c.concurrency = 1
		}
		if c.only == "" {
			c.only = "sigkill,sigterm,broker-cut"
		}
	}
	for _, costly := range []*int{&c.killers, &c.hangs} {
		if *costly < 0 {
			*costly = (c.messages + 1999) / 2000
		}
	}
}

func (c config) validate() error {
	_, treated := storeFaults[c.storeFaults]
	switch {
	case c.storeFaults != "" && !treated:
		return fmt.Errorf("-store-faults is %q, must be one of %q", c.storeFaults, slices.Sorted(maps.Keys(storeFaults)))
	case c.store != rig.Redis && rig.Databases[c.store].Start == nil:
		return fmt.Errorf("-store is %q, must be redis, postgres or mysql", c.store)
	case c.handlerTimeout <= 0 || c.handlerTimeout > consumerTimeout/2:
		return fmt.Errorf("-handler-timeout is %v, must be more than 0 and at most %v", c.handlerTimeout, consumerTimeout/2)
	case c.messages < 1 || c.concurrency < 1 || c.lanes < 1:
		return errors.New("-messages, -concurrency and -lanes are 1 at least")
	case c.prefetch < 0:
		return errors.New("-prefetch is not negative")
	case c.outage != 0 && c.outage < leastOutage:
		return fmt.Errorf("-outage is %v, must be 0 or at least %v", c.outage, leastOutage)
	case c.kind != string(topology.Quorum) && c.kind != string(topology.Classic):
		return fmt.Errorf("-type is %q: quorum or classic", c.kind)
	}
	return errors.Join(c.broker.Validate(), c.validateTogether())
}

// validateTogether refuses flags that do not go together. Workers in other languages know only a part of the plans for
// those in Go. consume does not know when the endpoint gives up a request that it has cancelled.
func (c config) validateTogether() error {
	speaks := func(name string) bool { return slices.Contains(c.languages, name) }
	set := map[string]bool{
		"-ordered": c.ordered, "queues that are not -ordered": !c.ordered, "-lanes above 1": c.lanes > 1,
		"-requeue": c.requeue, "-outage": c.outage != 0, "-store-faults": c.storeFaults != "",
		"-store postgres or mysql":  c.store != rig.Redis,
		"-languages other than go":  slices.ContainsFunc(c.languages, func(name string) bool { return name != inGo }),
		"-languages http":           speaks(inHTTP),
		"-languages python or node": speaks("python") || speaks("node"),
	}
	for _, pair := range []string{
		"-outage + -ordered", "-outage + -store-faults",
		"-outage + -languages other than go", "-ordered + -languages other than go",
		"-store postgres or mysql + -store-faults", "-store postgres or mysql + -languages python or node",
		"-languages http + -store-faults", "-lanes above 1 + queues that are not -ordered",
		"-requeue + queues that are not -ordered", "-requeue + -lanes above 1",
	} {
		if one, other, _ := strings.Cut(pair, " + "); set[one] && set[other] {
			return fmt.Errorf("%s is not for %s", one, other)
		}
	}
	return nil
}

// drainWithin is the time in which the queue has to drain.
func (c config) drainWithin() time.Duration {
	if f, is := storeFaults[c.storeFaults]; is {
		return f.drain + mostBackoff
	}
	return time.Minute + mostBackoff
}
