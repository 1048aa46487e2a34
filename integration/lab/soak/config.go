package soak

import (
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"slices"
	"time"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/topology"
)

// config is what the flags say.
type config struct {
	messages, faults      int
	killers, hangs        int
	abandoned             int
	plain                 bool
	handlerTimeout        time.Duration
	store                 string
	storeFaults           string
	drops                 int
	kind                  string
	seed                  uint64
	only                  string
	processes             int
	languages             []string
	concurrency, prefetch int
	maxRetries            int
	backlog               int
	ordered               bool
	lanes                 int
	outage                time.Duration
	broker                rig.Options
	keep                  string
	verbose               bool
}

const (
	consumerTimeout = time.Minute
	drainTimeout    = 5 * time.Second
	firstBackoff    = 10 * time.Millisecond
	mostBackoff     = 500 * time.Millisecond
)

// inRedis is the kind of store that is no database.
const inRedis = "redis"

func parseFlags(args []string) (config, error) {
	var c config
	f := flag.NewFlagSet("soak", flag.ContinueOnError)
	f.IntVar(&c.messages, "messages", 20000, "messages to publish")
	f.IntVar(&c.faults, "faults", 24, "faults to inject, spread over the run; with -store-faults or -abandoned none, "+
		"unless given")
	f.IntVar(&c.killers, "killers", -1, "messages that kill every process that runs them; -1: one in 2,000")
	f.IntVar(&c.hangs, "hangs", -1, "messages whose handlers pass their deadline; -1: one in 2,000")
	f.IntVar(&c.abandoned, "abandoned", 0, "messages whose handlers ignore their context, run on past the deadline, and "+
		"kill the process while a suspect runs isolated")
	f.BoolVar(&c.plain, "plain", false, "all other messages succeed, after 20 to 60 ms")
	f.DurationVar(&c.handlerTimeout, "handler-timeout", 2*time.Second, "of the consumers")
	f.StringVar(&c.store, "store", inRedis, "`kind` of the store: redis, postgres or mysql, which is a MariaDB")
	f.StringVar(&c.storeFaults, "store-faults", "", "what happens to requests to the store, and to their replies, until "+
		"the queue is drained; one of: "+describeStoreFaults())
	f.IntVar(&c.drops, "drops", 5, "with -store-faults start or end: how often the step is lost")
	f.StringVar(&c.kind, "type", string(topology.Quorum),
		"of the queue: quorum or classic; that of its dead letters is always a quorum queue")
	f.Uint64Var(&c.seed, "seed", 0, "of messages and faults; 0: a random one, which is printed")
	f.StringVar(&c.only, "only", "", "inject faults of these `kinds` only, separated by commas; one that is named twice "+
		"comes twice as often")
	f.IntVar(&c.processes, "processes", 3, "consumer processes; if not given, one for each of -languages at least")
	languages := f.String("languages", inGo, "`languages` of the consumer processes in turn, separated by commas: go, "+
		"python, node, http")
	f.IntVar(&c.concurrency, "concurrency", 16, "handlers in parallel, in each")
	f.IntVar(&c.prefetch, "prefetch", 0, "deliveries given to each; 0: the consumer's default")
	f.IntVar(&c.maxRetries, "max-retries", 3, "retries after the first failure")
	f.IntVar(&c.backlog, "backlog", 1000, "messages in the queue at which publishing waits; 0: publish all, then consume")
	f.BoolVar(&c.ordered, "ordered", false, "ordered consumers of a single-active-consumer queue, which is filled "+
		"beforehand: check the order")
	f.IntVar(&c.lanes, "lanes", 1, "with -ordered: keep the order in so many lanes, with -concurrency handlers in "+
		"parallel; 1: one handler")
	f.DurationVar(&c.outage, "outage", 0, "a service that all handlers call is away once, for so long; consumers have a "+
		"breaker and the default backoff, 5 % of the messages always fail, and so do 25 in a row when the outage begins")
	c.broker.Flags(f, "the queues soak and soak.dlq")
	f.BoolVar(&c.broker.Cluster, "cluster", false, "three RabbitMQ nodes and a Redis Cluster of six, which fail one at "+
		"a time and are cut off from each other")
	f.StringVar(&c.keep, "keep", "", "leave the history in this new `directory`")
	f.BoolVar(&c.verbose, "v", false, "show what the consumers log")
	if err := f.Parse(args); err != nil {
		return c, err
	}
	if f.NArg() > 0 {
		return c, fmt.Errorf("unknown argument %q", f.Arg(0))
	}
	var err error
	if c.languages, err = readLanguages(*languages); err != nil {
		return c, err
	}
	given := map[string]bool{}
	f.Visit(func(g *flag.Flag) { given[g.Name] = true })
	if !given["processes"] {
		c.processes = max(c.processes, len(c.languages))
	}
	if !given["faults"] && (c.storeFaults != "" || c.abandoned > 0) {
		c.faults = 0
	}
	if c.outage != 0 {
		c.settleOutage(given)
	}
	c = c.withDefaults()
	return c, c.validate()
}

func (c config) withDefaults() config {
	if c.seed == 0 {
		c.seed = rand.Uint64N(1 << 32) //nolint:gosec // it is printed
	}
	if c.ordered {
		c.settleOrdered()
	}
	if fault, ok := findStoreFault(c.storeFaults); ok && fault.directed != nil {
		c.settleDirected()
	}
	if c.killers < 0 {
		c.killers = (c.messages + 1999) / 2000
	}
	if c.hangs < 0 {
		c.hangs = (c.messages + 1999) / 2000
	}
	return c
}

// settleOrdered leaves out what makes one lane slow, and by default the faults after which a consumer does not know
// immediately that it was given up: what it does then is not promised to be in order.
func (c *config) settleOrdered() {
	c.backlog, c.killers, c.hangs = 0, max(c.killers, 0), max(c.hangs, 0)
	if c.lanes == 1 {
		c.concurrency = 1
	}
	if c.only == "" {
		c.only = "sigkill,sigterm,broker-cut"
	}
}

// settleDirected leaves one process with the healthy message and the killers beside it.
func (c *config) settleDirected() {
	c.killers = 4
	c.messages, c.processes, c.backlog, c.hangs, c.abandoned = 1+c.killers, 1, 0, 0, 0
}

func (c config) validate() error {
	switch {
	case c.storeFaults != "" && !c.treats():
		return fmt.Errorf("-store-faults is %q, must be one of: %s", c.storeFaults, describeStoreFaults())
	case c.store != inRedis && rig.Databases[c.store].Start == nil:
		return fmt.Errorf("-store is %q, must be redis, postgres or mysql", c.store)
	case c.store != inRedis && (c.broker.Cluster || c.storeFaults != ""):
		return errors.New("-cluster and -store-faults are for -store redis")
	case c.storeFaults != "" && c.broker.Cluster:
		return errors.New("-store-faults is not for -cluster, whose nodes are reached without a proxy")
	case c.handlerTimeout <= 0 || c.handlerTimeout > consumerTimeout/2:
		return fmt.Errorf("-handler-timeout is %v, must be more than 0 and at most %v", c.handlerTimeout, consumerTimeout/2)
	case c.abandoned < 0 || c.drops < 0:
		return errors.New("-abandoned and -drops must not be negative")
	case c.messages < 1 || c.processes < 1 || c.concurrency < 1 || c.maxRetries < 1:
		return errors.New("-messages, -processes, -concurrency and -max-retries are 1 at least")
	case c.outage < 0 || c.outage > 0 && (c.outage < leastOutage || c.treats() || c.ordered || c.broker.Cluster ||
		!slices.Equal(c.languages, []string{inGo})):
		return fmt.Errorf("-outage is %v, must be 0 or at least %v, for Go alone, and not for -ordered, -cluster or "+
			"-store-faults", c.outage, leastOutage)
	case c.lanes < 1 || c.lanes > 1 && !c.ordered:
		return errors.New("-lanes is 1 at least, and for -ordered")
	case c.faults < 0 || c.backlog < 0 || c.prefetch < 0:
		return errors.New("-faults, -backlog and -prefetch are not negative")
	case c.kind != string(topology.Quorum) && c.kind != string(topology.Classic):
		return fmt.Errorf("-type is %q: quorum or classic", c.kind)
	case c.broker.Cluster && c.kind != string(topology.Quorum):
		return fmt.Errorf("-type is %q: in a cluster it is quorum, as only that keeps a queue on several nodes", c.kind)
	}
	return errors.Join(c.broker.Validate(), c.validateLanguages())
}

// treats reports whether there are store faults.
func (c config) treats() bool {
	_, ok := findStoreFault(c.storeFaults)
	return ok
}

// treat returns what the proxies of the store ask; nil: they pass on bytes.
func (c config) treat() func(words []string) proxy.Treatment {
	fault, ok := findStoreFault(c.storeFaults)
	if !ok {
		return nil
	}
	return fault.treat(c.seed, c.drops)
}

// drainWithin is how long the queue may take to drain once all is published and no fault begins any more.
func (c config) drainWithin() time.Duration {
	if fault, ok := findStoreFault(c.storeFaults); ok {
		return fault.drain + mostBackoff
	}
	return time.Minute + mostBackoff
}

func (c config) promise() promise {
	return promise{kind: c.kind, limit: c.maxRetries + 1, handlerTimeout: c.handlerTimeout, drainWithin: c.drainWithin(),
		cluster: c.broker.Cluster, ordered: c.ordered, blind: slices.Contains(c.languages, inHTTP), outage: c.outage > 0}
}
