package counter

import (
	"context"
	_ "embed"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"
)

var (
	//go:embed scripts/record.lua
	recordLua string
	//go:embed scripts/start.lua
	startLua string
	//go:embed scripts/fail.lua
	failLua string
	//go:embed scripts/end.lua
	endLua string
	//go:embed scripts/grant.lua
	grantLua string
	//go:embed scripts/reset.lua
	resetLua string
	//go:embed scripts/taken.lua
	takenLua string
	//go:embed scripts/save.lua
	saveLua string
)

// step is one script: for each message it reads, decides and writes, and only what it decides is its own.
type step struct {
	name, source, sha1 string
}

func newStep(name, decide string) step {
	source := recordLua + decide + saveLua
	return step{name, source, redis.NewScript(source).Hash()}
}

var (
	stepStart = newStep("start", startLua)
	stepFail  = newStep("fail", failLua)
	stepEnd   = newStep("end", endLua)
	stepGrant = newStep("grant", grantLua)
	stepReset = newStep("reset", resetLua)
	stepTaken = newStep("add taken", takenLua)
)

// client sends steps and commands to the store. A Counter and its Admin share it.
type client struct {
	rdb     redis.UniversalClient
	cluster *redis.ClusterClient // rdb, if it is one
	pipe    *pipeline
	opts    Options
	refuse  error // why no step may be taken; nil if all is well
	secrets []string
}

// step takes one step in one round trip, which it shares with the steps that others take meanwhile.
func (c *client) step(ctx context.Context, s step, a Attempt, limit int, args ...any) (Reply, error) {
	if c.refuse != nil {
		return Reply{}, c.refuse
	}
	if err := a.validate(); err != nil {
		return Reply{}, err
	}
	all := append(make([]any, 0, 9), a.Token, cut(a.ID, maxStoredID), cut(a.Generation, maxStoredID), cut(a.Holder, maxStoredID), limit, a.age())
	reply, err := c.run(ctx, s, a.Message, append(all, args...))
	if err != nil {
		c.reload(ctx, err)
		return Reply{}, fmt.Errorf("counter: %s, queue %q: %w", s.name, a.Queue, c.errorAt(a.Message, err))
	}
	answer, err := parseReply(reply)
	if err != nil {
		return Reply{}, fmt.Errorf("counter: %s, queue %q: %w", s.name, a.Queue, err)
	}
	return answer, nil
}

// run sends a step by the name of its script. A server that does not know the script yet (NOSCRIPT: nothing was run) is
// sent the source, which it keeps. EVAL does that and runs it; SCRIPT LOAD would go to every master of a cluster, and fail
// while one that does not matter here is down.
func (c *client) run(ctx context.Context, s step, m Message, args []any) (any, error) {
	reply, err := c.pipe.do(ctx, script{"evalsha", s.sha1}, m, args)
	if redis.HasErrorPrefix(err, "NOSCRIPT") {
		return c.pipe.do(ctx, script{"eval", s.source}, m, args)
	}
	return reply, err
}

// reload makes a cluster client learn the new masters at once: left alone it took 59 s after the death of one (measured,
// go-redis 9.23), 3 s with this.
func (c *client) reload(ctx context.Context, err error) {
	if c.cluster != nil && !errors.Is(err, context.Canceled) {
		c.cluster.ReloadState(ctx)
	}
}

// parseReply reads what every script answers to a step.
func parseReply(reply any) (Reply, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 8 {
		return Reply{}, fmt.Errorf("%w: %.80q instead of 8 values", ErrReply, fmt.Sprint(reply))
	}
	var n [5]int64
	for i := range n {
		if n[i], ok = list[i+1].(int64); !ok || n[i] < 0 {
			return Reply{}, fmt.Errorf("%w: value %d is %.80q instead of a count", ErrReply, i+1, fmt.Sprint(list[i+1]))
		}
	}
	name, _ := list[0].(string)
	verdict, ok := verdicts[name]
	if !ok {
		return Reply{}, fmt.Errorf("%w: verdict %.80q", ErrReply, fmt.Sprint(list[0]))
	}
	cause, _ := list[6].(string)
	reason, _ := list[7].(string)
	return Reply{
		Verdict: verdict, Failures: int(n[0]), Crashes: int(n[1]), Limit: int(n[2]), Fence: n[3],
		Wait: time.Duration(min(n[4], maxWaitMillis)) * time.Millisecond, Cause: Cause(cause), Reason: reason,
	}, nil
}

// maxWaitMillis keeps a wait within a time.Duration.
const maxWaitMillis = int64(1<<63-1) / int64(time.Millisecond)
