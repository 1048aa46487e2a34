package soak

import (
	"slices"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/strikesmq/strikes/internal/proxy"
)

// storeFault is what happens to the requests of all processes to the store, and to their replies, from the beginning of
// a soak until its queue is drained.
type storeFault struct {
	name, says string
	odds       proxy.Odds
	directed   func(words []string) proxy.Part // what is lost of a request, the first -drops times; nil: the odds decide
	drain      time.Duration                   // within which the queue has to drain
}

const (
	lateFrom = 100 * time.Millisecond
	lateTo   = 600 * time.Millisecond // far beyond the 250 ms for which a client waits
)

var storeFaults = []storeFault{
	{
		name: "late", says: "half the replies late", drain: 90 * time.Second,
		odds: proxy.Odds{Late: .5, LateFrom: lateFrom, LateTo: lateTo},
	},
	{
		name: "lossy", says: "15 % of replies lost, 10 % late, 5 % of connections reset, 30 % of requests doubled",
		drain: time.Minute,
		odds:  proxy.Odds{Lose: .15, Late: .10, Reset: .05, Double: .30, LateFrom: lateFrom, LateTo: lateTo},
	},
	{
		name: "slow", says: "80 % of replies late", drain: 150 * time.Second,
		odds: proxy.Odds{Late: .8, LateFrom: lateFrom, LateTo: lateTo},
	},
	{
		name: "start", says: "one healthy message and four killers: replies to its START isolated are lost",
		drain: time.Minute,
		directed: func(words []string) proxy.Part {
			return lostIf(proxy.Reply, words, func(s stepArgs) bool { return s.mode() == "isolated" })
		},
	},
	{
		name: "end", says: "one healthy message and four killers: its END is lost", drain: time.Minute,
		directed: func(words []string) proxy.Part {
			return lostIf(proxy.Request, words, func(s stepArgs) bool { return s.mode() == "" && !s.isBegun() })
		},
	},
}

func findStoreFault(name string) (storeFault, bool) {
	i := slices.IndexFunc(storeFaults, func(f storeFault) bool { return f.name == name })
	if i < 0 {
		return storeFault{}, false
	}
	return storeFaults[i], true
}

// describeStoreFaults lists them for the help of a flag.
func describeStoreFaults() string {
	var all []string
	for _, f := range storeFaults {
		all = append(all, f.name+" ("+f.says+")")
	}
	return strings.Join(all, ", ")
}

// treat returns the treatment of a request at a proxy of the store. It treats steps, and passes on all other requests.
func (f storeFault) treat(seed uint64, drops int) func(words []string) proxy.Treatment {
	if f.directed == nil {
		treat := f.odds.Treat(seed)
		return func(words []string) proxy.Treatment {
			if len(steps(words)) == 0 {
				return proxy.Treatment{}
			}
			return treat(words)
		}
	}
	var dropped atomic.Int64
	return func(words []string) proxy.Treatment {
		lost := f.directed(words)
		if lost == 0 || dropped.Add(1) > int64(drops) {
			return proxy.Treatment{}
		}
		return proxy.Treatment{Lose: lost}
	}
}

// victim is the id of the healthy message of a directed soak: the first in the queue.
const victim = "m000001"

// lostIf returns part if a request has a step of the victim that meant accepts, else no part.
func lostIf(part proxy.Part, words []string, meant func(stepArgs) bool) proxy.Part {
	for _, s := range steps(words) {
		if s.id() == victim && meant(s) {
			return part
		}
	}
	return 0
}

// stepArgs are the arguments of one step in a script call, as counter/scripts/record.lua documents them.
type stepArgs []string

const commonArgs = 6 // of every step: token, id, generation, consumer, limit, age

func (s stepArgs) id() string { return s[1] }

// mode is that of a START; empty: it is another step.
func (s stepArgs) mode() string {
	for _, arg := range s[commonArgs:] {
		switch arg {
		case "shared", "isolated", "beside-abandoned", "untracked":
			return arg
		}
	}
	return ""
}

// isBegun reports whether the step is BEGUN, which has no arguments of its own.
func (s stepArgs) isBegun() bool { return len(s) == commonArgs }

// steps takes a script call apart: its arguments are the TTL and then, for each record, those of one step.
func steps(words []string) (all []stepArgs) {
	if len(words) < 3 || !strings.HasPrefix(strings.ToLower(words[0]), "eval") {
		return nil
	}
	const othersFirst = 4 // keys before the records
	keys, err := strconv.Atoi(words[2])
	if err != nil || keys <= othersFirst || len(words) < 3+keys+1 {
		return nil
	}
	args := words[3+keys+1:]
	width := len(args) / (keys - othersFirst)
	if width < commonArgs {
		return nil
	}
	for s := range slices.Chunk(args, width) {
		all = append(all, s)
	}
	return all
}
