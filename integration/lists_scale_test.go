package integration

import (
	"context"
	"flag"
	"fmt"
	"iter"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/uuid"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
	"github.com/strikesmq/strikes/topology"
)

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
