package integration

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"math"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
	"github.com/strikesmq/strikes/topology"
)

var (
	scaleLanes = flag.Int("scale.lanes", 300, "blocked lanes of TestManyBlockedLanes, with 10 messages each; make "+
		"lanes-scale has 100000")
	scaleDeep = flag.Int("scale.deep", 2000, "blocked messages in one lane of TestManyBlockedLanes; make lanes-scale "+
		"has 300000")
	scaleJudge = flag.Bool("scale.judge", false, "fail if TestManyBlockedLanes takes longer than its goals")
)

// The goals of TestManyBlockedLanes.
const (
	firstHandledGoal = 2 * time.Second
	stallGoal        = 20 * time.Millisecond // of another client of the store
	viewGoal         = 500 * time.Millisecond
)

// TestManyBlockedLanes starts a consumer on a queue with many blocked lanes, and on one with many messages in one lane.
// A message of a free lane is handled, and one of a blocked lane is dead-lettered without an attempt. status and lane
// list show a page. With -scale.judge it fails if one of them takes longer than its goal, or occupies the store for
// longer.
func TestManyBlockedLanes(t *testing.T) {
	if !*scaleJudge {
		t.Parallel()
	}
	strikes := servertest.Program(t, "cmd/strikes")
	for _, c := range []struct{ lanes, messages int }{{*scaleLanes, 10}, {1, *scaleDeep}} {
		t.Run(fmt.Sprintf("%d with %d", c.lanes, c.messages), func(t *testing.T) {
			l := newLaneQueue(t)
			w := watchStalls(t)
			l.block(t, w.rdb, c.lanes, c.messages)
			w.longest(t) // the fixture is no subject of the test

			publishBodies(t, l.name, 0, 2, func(i int) string { return []string{"x free", "x lane0"}[i] })
			begun := time.Now()
			l.consume(t, nil)
			l.wantRan(t, "0")
			within(t, "the first message is handled", time.Since(begun), firstHandledGoal)
			l.awaitDead(t, 1)
			last := l.laneKey(fmt.Sprint("lane", c.lanes-1))
			proctest.Eventually(t, 5*time.Minute, "a consumer that has read all blocked lanes", func() bool {
				left, err := w.rdb.PTTL(t.Context(), last).Result()
				return err == nil && left > 2*fixtureTTL
			})
			t.Logf("all blocked lanes are read %v after the start", time.Since(begun).Round(time.Millisecond))
			w.judge(t, "the consumer")
			if ran := l.ran(); len(ran) != 1 {
				t.Errorf("handled %q", ran)
			}

			out := l.run(t, strikes, "status", l.name)
			if want := fmt.Sprintf("lanes      %d blocked", c.lanes); !strings.Contains(out, want) {
				t.Errorf("status lacks %q:\n%s", want, out)
			}
			w.judge(t, "status")
			out = l.run(t, strikes, "lane", "list", l.name)
			if lines := strings.Count(out, "\nlane"); lines != min(100, c.lanes) {
				t.Errorf("lane list has %d lanes:\n%s", lines, out)
			}
			w.judge(t, "lane list")
			begun = time.Now()
			state, err := l.counts.Admin().Lane(t.Context(), "/", l.name, "lane0")
			need(t, err)
			within(t, "reading one lane", time.Since(begun), viewGoal)
			if want := c.messages + 1; state.Messages != want || len(state.Dead()) != min(want, 500) {
				t.Errorf("%d messages, %d dead letters of the first %d; want %d messages", state.Messages, len(state.Dead()),
					len(state.Open), want)
			}
			w.judge(t, "reading one lane")
		})
	}
}

// fixtureTTL tells a lane that the consumer has read, and renewed for 30 days, from one that it has not.
const fixtureTTL = time.Hour

func (l *laneQueue) laneKey(lane string) string {
	return l.prefix + ":{%2F/" + l.name + "}:lane:" + counter.LaneHash(lane)
}

// block writes lanes that are blocked, as the steps of consumers leave them, into the store.
func (l *laneQueue) block(t *testing.T, rdb *redis.Client, lanes, messages int) {
	t.Helper()
	ctx, q := t.Context(), l.prefix+":{%2F/"+l.name+"}:"
	begun := time.Now().Add(-time.Hour)
	const most = 5000 // messages in one round trip
	pipe := rdb.Pipeline()
	flush := func() {
		need(t, errOf(pipe.Exec(ctx)))
	}
	written := 0
	for i := range lanes {
		name := fmt.Sprint("lane", i)
		key, since := l.laneKey(name), begun.Add(time.Duration(i)*time.Millisecond)
		pipe.ZAdd(ctx, q+"lanes", redis.Z{Score: -float64(since.UnixMilli()), Member: counter.LaneHash(name)})
		last := rules.Position{Since: since.UnixMicro(), Number: int64(messages)}
		lane := rules.Lane{Name: name, Since: last.Since, Last: last.Number, First: 1, Open: last.Number, By: name + ".1",
			Blocked: since, Owner: "before", Number: last.Number, Said: rules.LaneReply{Code: rules.LaneBlocked, Position: last}}
		pipe.Set(ctx, key, rules.EncodeLane(lane), fixtureTTL)
		key = fmt.Sprint(key, ":places:", lane.Since)
		for at := 1; at <= messages; at += 100 {
			var places []redis.Z
			for n := at; n < at+100 && n <= messages; n++ {
				id, kind := fmt.Sprint(name, ".", n), rules.PlaceBlocked
				if n == 1 {
					kind = rules.PlaceDied
				}
				letter := rules.Place{Number: int64(n), Kind: kind, Letter: counter.LaneHash(id) + ":0", Owner: "before", ID: id}
				open := rules.Place{Number: int64(n), Kind: rules.PlaceOpen}
				for _, m := range append(letter.Members(), open.Members()...) {
					places = append(places, redis.Z{Score: float64(m.Score), Member: m.Name})
				}
			}
			pipe.ZAdd(ctx, key, places...)
			if written += len(places) / 3; written >= most {
				flush()
				written = 0
			}
		}
		pipe.PExpire(ctx, key, fixtureTTL)
	}
	pipe.Set(ctx, q+"lanes:owner", "before", fixtureTTL)
	pipe.HSet(ctx, q+"lanes:blocked", "count", lanes*(messages-1))
	pipe.PExpire(ctx, q+"lanes", fixtureTTL)
	pipe.PExpire(ctx, q+"lanes:blocked", fixtureTTL)
	flush()
}

// run runs the command three times, and returns its output. The fastest is judged, because a busy machine makes each
// one slower. The exit code is not judged: the dead letters of the fixture are not in the broker.
func (l *laneQueue) run(t *testing.T, strikes string, args ...string) (printed string) {
	t.Helper()
	fastest := time.Duration(math.MaxInt64)
	for range 3 {
		cmd := exec.CommandContext(t.Context(), strikes, args...)
		cmd.Env = append(os.Environ(), "AMQP_URL="+brokerURL(t), "REDIS_URL="+redisURL(t), "STRIKES_PREFIX="+l.prefix,
			"STRIKES_MANAGEMENT_URL="+managementURL(t))
		begun := time.Now()
		out, err := cmd.CombinedOutput()
		fastest = min(fastest, time.Since(begun))
		if err != nil && cmd.ProcessState == nil {
			t.Fatal(err)
		}
		printed = string(out)
	}
	within(t, strings.Join(args[:len(args)-1], " "), fastest, viewGoal)
	return printed
}

func within(t *testing.T, what string, took, goal time.Duration) {
	t.Helper()
	t.Logf("%s: %v (goal %v)", what, took.Round(time.Millisecond), goal)
	if *scaleJudge && took > goal {
		t.Errorf("%s took %v, want %v at most", what, took, goal)
	}
}

// stallWatch sees how long the store is occupied.
type stallWatch struct {
	rdb  *redis.Client
	wait atomic.Int64 // longest of a client that does nothing but ping, in ns
}

// watchStalls watches the store until the test ends.
func watchStalls(t *testing.T) *stallWatch {
	t.Helper()
	opts, err := redis.ParseURL(redisURL(t))
	need(t, err)
	w := &stallWatch{rdb: redis.NewClient(opts)}
	t.Cleanup(func() { need(t, w.rdb.Close()) })
	opts.PoolSize = 1
	pinger := redis.NewClient(opts)
	ctx, cancel := context.WithCancel(context.WithoutCancel(t.Context()))
	done := make(chan struct{})
	go func() {
		defer close(done)
		for ctx.Err() == nil {
			if begun := time.Now(); pinger.Ping(ctx).Err() == nil {
				w.wait.Store(max(w.wait.Load(), int64(time.Since(begun))))
			}
		}
	}()
	t.Cleanup(func() { cancel(); <-done; need(t, pinger.Close()) })
	for name, value := range map[string]string{"slowlog-log-slower-than": "200", "slowlog-max-len": "2000"} {
		before, err := w.rdb.ConfigGet(ctx, name).Result()
		need(t, err)
		need(t, w.rdb.ConfigSet(ctx, name, value).Err())
		t.Cleanup(func() { need(t, w.rdb.ConfigSet(context.WithoutCancel(ctx), name, before[name]).Err()) })
	}
	return w
}

// longest returns the longest command since it was called last, and how long the pinging client waited at most.
func (w *stallWatch) longest(t *testing.T) (command redis.SlowLog, wait time.Duration) {
	t.Helper()
	entries, err := w.rdb.SlowLogGet(t.Context(), -1).Result()
	need(t, err)
	need(t, w.rdb.SlowLogReset(t.Context()).Err())
	for _, e := range entries {
		if own := slices.Contains([]string{"slowlog", "config"}, strings.ToLower(e.Args[0])); !own &&
			e.Duration > command.Duration {
			command = e
		}
	}
	return command, time.Duration(w.wait.Swap(0))
}

// judge prints the command that occupied the store for longest. It judges by the longest command: a busy machine also
// makes a client wait.
func (w *stallWatch) judge(t *testing.T, during string) {
	t.Helper()
	command, wait := w.longest(t)
	text := strings.Join(command.Args, " ")
	t.Logf("%s: the longest command took %v; another client waited for %v: %.120q", during, command.Duration,
		wait.Round(10*time.Microsecond), text)
	if *scaleJudge && command.Duration > stallGoal {
		t.Errorf("%s occupied the store for %v, want %v at most", during, command.Duration, stallGoal)
	}
}

var (
	listsDead   = flag.Int("lists.dead", 3000, "dead letters of TestLists; make lists has 100000")
	listsRounds = flag.Int("lists.rounds", 3, "how many times TestLists times each list and command")
	listsJudge  = flag.Bool("lists.judge", false, "fail if a list or a command takes longer than its goal")
)

// The goals of TestLists. A list may take listsFactor times as long in a database as on Redis, or listsQuick. A command
// may take commandsGoal.
const (
	listsFactor  = 2
	listsQuick   = 100 * time.Millisecond
	commandsGoal = 500 * time.Millisecond
)

// listing is a list that TestLists times: by a command, or by a function of the library.
type listing struct {
	name    string
	command []string // the arguments of strikes; empty: run is timed
	run     func(ctx context.Context, q *ops.Queue) (seen int, err error)
	want    int // dead letters; 0: not checked
}

// TestLists prints how long the lists of a queue with many dead letters take in the library, and in commands. It takes
// Redis, PostgreSQL and MariaDB in turns.
func TestLists(t *testing.T) {
	servertest.Long(t)
	n := *listsDead
	queue := declared(t, topology.Classic)
	var ids []string
	for i := range n {
		ids = append(ids, listID(i))
	}
	makeDeadLetters(t, queue, ids)
	stores := []string{"redis", "postgres", "mysql"}
	queues, urls := map[string]*ops.Queue{}, map[string]string{"redis": patientURL(t)}
	for name, addr := range map[string]func(testing.TB) string{"postgres": servertest.PostgreSQL,
		"mysql": servertest.MariaDB} {
		var err error
		urls[name], err = rig.Databases[name].Prepare(t.Context(), addr(t))
		need(t, err)
	}
	for _, name := range stores {
		c, err := rig.Dial(urls[name], queue)
		need(t, err)
		t.Cleanup(func() { need(t, c.Close()) })
		began := time.Now()
		failSome(t, c, queue, n)
		t.Logf("%s: %d dead letters in %v", name, n, time.Since(began).Round(time.Second))
		queues[name] = &ops.Queue{Store: c.Admin(), VHost: "/", Name: queue}
	}
	for _, l := range listings(queue, n) {
		took := map[string][]time.Duration{}
		for range *listsRounds {
			for _, name := range stores {
				began := time.Now()
				seen, err := n, error(nil)
				if l.command != nil {
					runList(t, urls[name], queue, l.command)
				} else {
					seen, err = l.run(t.Context(), queues[name])
				}
				took[name] = append(took[name], time.Since(began))
				if err != nil || l.want > 0 && seen != l.want {
					t.Errorf("%s on %s: %d dead letters, %v; want %d", l.name, name, seen, err, l.want)
				}
			}
		}
		line := fmt.Sprintf("%-34s", strings.Replace(l.name, queue, "Q", 1))
		for _, name := range stores {
			slices.Sort(took[name])
			median := took[name][len(took[name])/2]
			factor := float64(median) / float64(took["redis"][len(took["redis"])/2])
			line += fmt.Sprintf("  %s %7.1f ms (%.2f)", name, float64(median)/1e6, factor)
			switch {
			case !*listsJudge:
			case l.command == nil && median > listsQuick && factor > listsFactor:
				t.Errorf("%s on %s: %.2f times as long as on Redis, want %d at most", l.name, name, factor, listsFactor)
			case l.command != nil && median > commandsGoal:
				t.Errorf("%s on %s: %v, want %v at most", l.name, name, median, commandsGoal)
			}
		}
		t.Log(line)
	}
}

func listings(queue string, n int) (all []listing) {
	count := func(from iter.Seq2[counter.Dead, error], most int) (seen int, err error) {
		for _, err := range from {
			if seen++; err != nil || seen == most {
				return seen, err
			}
		}
		return seen, nil
	}
	summary := func(recent time.Duration) func(context.Context, *ops.Queue) (int, error) {
		return func(ctx context.Context, q *ops.Queue) (int, error) {
			s, err := q.Store.Summaries(ctx, q.VHost, []string{q.Name}, recent)
			if err != nil {
				return 0, err
			}
			return s[0].Recent, nil
		}
	}
	all = []listing{
		{name: "groups", want: n, run: func(ctx context.Context, q *ops.Queue) (int, error) {
			got, err := q.Groups(ctx, ops.DeadQuery{})
			return got.Count, err
		}},
		{name: "summary, 10,000 recent", want: min(n, 10_000), run: summary(time.Hour)},
		{name: "summary", run: summary(time.Millisecond)},
		{name: "first page", want: 50, run: func(ctx context.Context, q *ops.Queue) (int, error) {
			return count(q.Store.Dead(ctx, q.VHost, q.Name, ""), 50)
		}},
		{name: "all", want: n, run: func(ctx context.Context, q *ops.Queue) (int, error) {
			return count(q.Store.Dead(ctx, q.VHost, q.Name, ""), 0)
		}},
		{name: "all records", want: n, run: func(ctx context.Context, q *ops.Queue) (seen int, err error) {
			for _, err := range q.Store.List(ctx, q.VHost, q.Name) {
				if seen++; err != nil {
					return seen, err
				}
			}
			return seen, nil
		}},
	}
	for _, c := range []string{"status Q", "dead list --groups Q",
		"dead list --limit 20 Q", "dead list --read --limit 20 Q", "dead list --error INV-12 --limit 20 Q",
		"counter list --limit 20 Q"} {
		args := strings.Fields(c)
		args[len(args)-1] = queue
		all = append(all, listing{name: c, command: args})
	}
	return all
}

// runList runs a command of strikes.
func runList(t *testing.T, store, prefix string, args []string) {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), servertest.Program(t, "cmd/strikes"), args...)
	cmd.Env = append(os.Environ(), "STRIKES_STORE_URL="+store, "STRIKES_PREFIX="+prefix, "STRIKES_AMQP_URL="+brokerURL(t),
		"STRIKES_MANAGEMENT_URL="+managementURL(t))
	var stdout, stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	if err := cmd.Run(); err != nil {
		t.Errorf("strikes %q: %v\n%.2000s", args, err, &stderr)
	}
}

func listID(i int) string { return fmt.Sprintf("0197f7a2-5b3c-7d10-8e1f-%012x", i) }

// failSome makes the records of these dead letters in the store.
func failSome(t *testing.T, c *counter.Counter, queue string, n int) {
	t.Helper()
	reasons := []string{"POST https://tax.example/v2/rates: 503 Service Unavailable (request %08x)",
		"dial tcp 10.20.3.%d:5432: connect: connection refused", `invoice INV-%d: unknown currency "XTS"`,
		"customer %d: context deadline exceeded (Client.Timeout exceeded while awaiting headers)"}
	var dying panics.Group
	dying.SetLimit(100)
	for i := range n {
		dying.Go(func() error {
			m := counter.Message{VHost: "/", Queue: queue, ID: listID(i)}
			reason := fmt.Sprintf(reasons[i%len(reasons)], i*7919%n)
			return errOf(c.Fail(t.Context(), counter.Attempt{Message: m, Token: uuid.NewString(), Consumer: "lists"},
				counter.Failure{Cause: counter.CauseFailed, Reason: reason}))
		})
	}
	need(t, dying.Wait())
}
