package counter

import (
	"cmp"
	"context"
	_ "embed"
	"errors"
	"slices"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/printable"
)

var (
	//go:embed scripts/record.lua
	recordLua string
	//go:embed scripts/start.lua
	startLua string
	//go:embed scripts/begun.lua
	begunLua string
	//go:embed scripts/fail.lua
	failLua string
	//go:embed scripts/end.lua
	endLua string
)

// step is a script that reads, decides and writes for each message. It begins with the functions that all steps share.
type step struct {
	name, source, sha1 string
}

func newStep(name, decide string) step {
	source := recordLua + decide
	return step{name, source, redis.NewScript(source).Hash()}
}

var (
	stepStart = newStep("start", startLua)
	stepBegun = newStep("begun", begunLua)
	stepFail  = newStep("fail", failLua)
	stepEnd   = newStep("end", endLua)
)

// client has the parts that a Counter and its Admin share: the store, and on Redis the scripts, which save round trips.
type client struct {
	store  Store
	opts   Options
	recent recent

	rdb     redis.UniversalClient // nil: the store is no Redis, and takes every step through Load and Save
	owned   bool                  // Dial opened rdb, so Close closes it
	cluster *redis.ClusterClient  // rdb, if it is one
	pipe    *pipeline             // nil: a round trip costs nothing, and steps share none
	secrets []string
	host    string // in the URL that Dial was given; empty: it is not known
	tls     bool   // that URL wants TLS
}

// ruleOf is the function of package rules for a step of an attempt, with its other arguments.
type ruleOf func(r *Record, q *rules.Queue, a Attempt, now time.Time) (Reply, time.Duration)

// take takes a step by its script, or where there is no Redis by its rule.
func (c *client) take(ctx context.Context, s step, a Attempt, by ruleOf, limit int, args ...any) (Reply, error) {
	if err := checkAttempt(a); err != nil {
		return Reply{}, err
	}
	if c.rdb != nil {
		return c.step(ctx, s, a, limit, args...)
	}
	a.Consumer = printable.Cut(a.Consumer, rules.MaxStoredID)
	age, progress := time.Duration(ageOf(a))*time.Millisecond, a.Progress
	rule := func(r *Record, q *rules.Queue, now time.Time) (Reply, time.Duration) {
		a.Received, a.Progress = now.Add(-age), progress.At(now)
		return by(r, q, a, now)
	}
	if c.pipe == nil {
		return c.change(ctx, s.name, a.Message, rule)
	}
	step := newTaking(a.Message, rule)
	step.fresh = a.First
	reply, err := c.pipe.do(ctx, &request{message: a.Message, taking: step})
	if err != nil {
		return Reply{}, failed(s.name, a.Queue, err)
	}
	return reply.(Reply), nil
}

// takeBatch takes the steps of a batch of one queue, each until it is saved or its caller has left.
func (c *client) takeBatch(ctx context.Context, batch []*request) {
	of := Queue{batch[0].message.VHost, batch[0].message.Queue}
	for len(batch) > 0 {
		some := make([]*taking, len(batch))
		for i, r := range batch {
			some[i] = r.taking
		}
		again, err := c.takeSome(ctx, of, some)
		c.pipe.answered.Store(err == nil)
		var open []*request
		for _, r := range batch {
			if err == nil && slices.Contains(again, r.taking) && !c.pipe.hasLeft(r) {
				open = append(open, r)
				continue
			}
			if r.reply, r.err = r.taking.reply, cmp.Or(err, r.taking.err); r.err != nil {
				r.reply = nil
			}
			close(r.done)
		}
		batch = open
	}
}

// step takes one step by its script, in one round trip, which it shares with the steps of other callers.
func (c *client) step(ctx context.Context, s step, a Attempt, limit int, args ...any) (Reply, error) {
	raw, err := c.run(ctx, s, a.Message, stepArgs(s, a, limit, time.Now(), args))
	if err != nil {
		c.reload(ctx, err)
		return Reply{}, failed(s.name, a.Queue, c.errorAt(a.Message, err))
	}
	reply, err := parseReply(raw)
	if err != nil {
		return Reply{}, failed(s.name, a.Queue, err)
	}
	return reply, nil
}

// stepArgs returns the arguments of a step that is sent now, as scripts/record.lua describes them.
func stepArgs(s step, a Attempt, limit int, now time.Time, args []any) []any {
	all := append(make([]any, 0, 12), a.Token, printable.Cut(a.ID, rules.MaxStoredID),
		printable.Cut(a.Generation, rules.MaxStoredID), printable.Cut(a.Consumer, rules.MaxStoredID), limit, ageOf(a))
	all = append(all, args...)
	least := 8 // arguments of START
	switch s {
	case stepStart:
	case stepFail:
		least = 10
	default:
		return all
	}
	if a.HoldsQueue {
		all = append(all, "hold")
	}
	for _, arg := range []string{a.Progress.Arg(now), a.Delay.String()} {
		if arg != "" {
			all = append(all, arg)
		}
	}
	// The script takes an absent limit as 0, and each argument costs the server time.
	for len(all) > least && all[len(all)-1] == any(int64(0)) {
		all = all[:len(all)-1]
	}
	return all
}

// run sends a step by the hash of its script. If the server does not know the script (NOSCRIPT: nothing was run), run
// sends the source with EVAL, which the server keeps. SCRIPT LOAD would go to every master of a Cluster, and fail while
// any one is down.
func (c *client) run(ctx context.Context, s step, m Message, args []any) (any, error) {
	reply, err := c.pipe.do(ctx, &request{script: script{"evalsha", s.sha1}, message: m, args: args})
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return c.pipe.do(ctx, &request{script: script{"eval", s.source}, message: m, args: args})
	}
	return reply, err
}

// reload makes a Cluster client ask for the new masters immediately. Without it, that took 59 s after the death of a
// master; with it, 3 s (measured, go-redis 9.23).
func (c *client) reload(ctx context.Context, err error) {
	if c.cluster != nil && !errors.Is(err, context.Canceled) {
		c.cluster.ReloadState(ctx)
	}
}
