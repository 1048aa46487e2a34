package integration

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/proxy"
)

// child is the configuration of a consumer process. The process writes a line to Ledger, with one write(2), before
// each attempt: its pid, the id of the message, the number of the attempt, and that of the last one.
type child struct {
	AMQP, Store, Prefix, Queue string
	Ledger                     string
	Fail                       []string           // ids whose handler fails
	Kill                       []string           // ids that kill the process
	Slow                       []string           // ids whose handler waits until it is stopped
	Isolation                  consumer.Isolation //
	Concurrency                int
	Backoff                    time.Duration // if zero, 1 ms
	Takes                      time.Duration // the handler's time for each message
}

func (c child) run(ctx context.Context) error {
	ledger, err := os.OpenFile(c.Ledger, os.O_APPEND|os.O_WRONLY|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	counts, err := rig.Dial(c.Store, c.Prefix)
	if err != nil {
		return err
	}
	consume := consumer.Consumer{
		Queue: c.Queue, Counter: counts, Isolation: c.Isolation, Concurrency: c.Concurrency, DrainTimeout: time.Second,
		Backoff: func(int) time.Duration { return max(c.Backoff, time.Millisecond) },
		Handler: func(ctx context.Context, d amqp.Delivery) error {
			a, _ := consumer.AttemptFrom(ctx)
			if _, err := fmt.Fprintln(ledger, os.Getpid(), d.MessageId, a.Number, a.Last); err != nil {
				return err
			}
			time.Sleep(c.Takes)
			switch {
			case slices.Contains(c.Kill, d.MessageId):
				return syscall.Kill(os.Getpid(), syscall.SIGKILL)
			case slices.Contains(c.Fail, d.MessageId):
				return errPoison
			case slices.Contains(c.Slow, d.MessageId):
				<-ctx.Done()
				return ctx.Err()
			}
			return nil
		},
	}
	return errors.Join(consume.Run(ctx, consumer.Dialer(c.AMQP, amqp.Config{})), counts.Close())
}

// spawn starts a consumer process, which does not outlive the test.
func (c child) spawn(t *testing.T) process {
	t.Helper()
	return worker{Child: &c}.spawn(t)
}

// told is a line of the ledger: an attempt.
type told struct {
	pid, number, last int
	id                string
}

// told reads the ledger.
func (c child) told(t *testing.T) (all []told) {
	t.Helper()
	f, err := os.Open(c.Ledger)
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	need(t, err)
	defer func() { _ = f.Close() }()
	for lines := bufio.NewScanner(f); lines.Scan(); {
		var l told
		if _, err := fmt.Sscan(lines.Text(), &l.pid, &l.id, &l.number, &l.last); err != nil {
			t.Fatalf("%q: %v", lines.Text(), err)
		}
		all = append(all, l)
	}
	return all
}

// runs tells how often the handler was called for each message, and in which processes.
func (c child) runs(t *testing.T) (byID map[string]int, processes map[int]bool) {
	t.Helper()
	byID, processes = map[string]int{}, map[int]bool{}
	for _, l := range c.told(t) {
		byID[l.id]++
		processes[l.pid] = true
	}
	return byID, processes
}

func newChild(t *testing.T, queue string) (child, *counter.Counter) {
	t.Helper()
	return newChildOn(t, queue, redisURL(t), patientURL(t))
}

// newChildOn returns a process on a store, and a Counter on the same records at another URL.
func newChildOn(t *testing.T, queue, store, patient string) (child, *counter.Counter) {
	t.Helper()
	prefix := uniqueName(t, "strikes")
	return child{
		AMQP: brokerURL(t), Store: store, Prefix: prefix, Queue: queue, Ledger: filepath.Join(t.TempDir(), "ledger"),
		Concurrency: 1,
	}, counterOn(t, patient, prefix)
}

func TestThreeProcessesShareOneCount(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		spec, c := newChild(t, queue)
		shareOneCount(t, spec, c)
	})
}

func shareOneCount(t *testing.T, spec child, c *counter.Counter) {
	t.Helper()
	queue := spec.Queue
	for i := range 10 {
		spec.Fail = append(spec.Fail, fmt.Sprint("m", 10*i))
	}
	var all []process
	for range 3 {
		all = append(all, spec.spawn(t))
	}
	eventually(t, "three consumers", func() bool { return consumers(t, queue) == 3 })
	publish(t, queue, "m", 100)
	eventually(t, "ten dead letters", func() bool { return queueDepth(t, queue+".dlq") == 10 })
	eventually(t, "every message handled", func() bool {
		byID, _ := spec.runs(t)
		return len(byID) == 100
	})
	terminate(t, all...)
	byID, processes := spec.runs(t)
	for i := range 100 {
		id := fmt.Sprint("m", i)
		want := map[bool]int{true: 4, false: 1}[i%10 == 0]
		if byID[id] != want {
			t.Errorf("%s ran %d times, want %d", id, byID[id], want)
		}
	}
	if len(processes) < 2 {
		t.Errorf("only %d of three processes handled anything", len(processes))
	}
	for _, id := range spec.Fail {
		if r := one(t, c, queue, id); r.Failures != 4 || r.State != counter.StateDeadLetter {
			t.Errorf("%s: %+v", id, r)
		}
	}
}

// consumers counts those that are attached to a queue.
func consumers(t *testing.T, queue string) int {
	t.Helper()
	state, err := queueState(dialer(t), queue)
	need(t, err)
	return state.Consumers
}

// TestKillerIsDeadLetteredAndNeighboursAreNot has a message that kills every process which runs it, among others that
// are in the same processes when it does.
func TestKillerIsDeadLetteredAndNeighboursAreNot(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		spec, c := newChild(t, queue)
		spec.Kill, spec.Concurrency = []string{"m5"}, 4
		publish(t, queue, "m", 20)
		deaths := 0
		for queueDepth(t, queue+".dlq") == 0 {
			if deaths++; deaths > 20 {
				t.Fatal("the killer is not dead-lettered")
			}
			p := spec.spawn(t)
			eventually(t, "the process's death or the killer's", func() bool {
				return len(p.ended) == 1 || queueDepth(t, queue+".dlq") == 1
			})
		}
		eventually(t, "every message handled", func() bool {
			byID, _ := spec.runs(t)
			return len(byID) == 20 && queueDepth(t, queue) == 0
		})
		byID, _ := spec.runs(t)
		if byID["m5"] != 3+3 {
			t.Errorf("the killer ran %d times, want %d", byID["m5"], 3+3)
		}
		if dead := ids(getAll(t, queue+".dlq")); !slices.Equal(dead, []string{"m5"}) {
			t.Errorf("dead letters: %v", dead)
		}
		if r := one(t, c, queue, "m5"); r.Crashes != 4 || r.Failures != 0 {
			t.Errorf("record of the killer: %+v", r)
		}
		for r, err := range c.Admin().List(t.Context(), "/", queue) {
			if err != nil || r.ID != "m5" && r.Counted() != 0 {
				t.Errorf("a neighbour was counted: %+v, %v", r, err)
			}
		}
	})
}

// TestKillsBeforeTheHandlerAreNotCounted ends five processes with SIGKILL from outside, between START isolated and the
// handler of one healthy message: before the reply to START, and before the store has BEGUN. None is counted as a
// crash.
func TestKillsBeforeTheHandlerAreNotCounted(t *testing.T) {
	t.Parallel()
	const width = 3 + 5 + 1 + 6 // the words of a BEGUN, which has the common arguments alone
	isEval := func(words []string) bool { return strings.HasPrefix(strings.ToLower(words[0]), "eval") }
	for name, treat := range map[string]func(words []string) proxy.Treatment{
		"before the reply to START": func(words []string) proxy.Treatment {
			if isEval(words) && slices.Contains(words, "isolated") {
				return proxy.Treatment{Lose: proxy.Reply}
			}
			return proxy.Treatment{}
		},
		"before BEGUN": func(words []string) proxy.Treatment {
			if isEval(words) && len(words) == width {
				return proxy.Treatment{Lose: proxy.Request}
			}
			return proxy.Treatment{}
		},
	} {
		t.Run(name, func(t *testing.T) {
			eachType(t, func(t *testing.T, queue string) {
				spec, c := newChild(t, queue)
				direct := spec
				u, err := url.Parse(spec.Store)
				need(t, err)
				p, err := proxy.NewStore(t.Context(), u.Host, treat)
				need(t, err)
				t.Cleanup(p.Close)
				u.Host = p.Addr()
				spec.Store, spec.Slow = u.String(), []string{"m0"}
				publish(t, queue, "m", 1)
				kill := func(when string, is func() bool) {
					t.Helper()
					one := spec.spawn(t)
					eventually(t, when, is)
					one.crash()
				}
				ran := func() int { byID, _ := spec.runs(t); return byID["m0"] }
				for n := 1; n <= 2; n++ { // a first delivery, and beside others: the message becomes a suspect
					kill("the handler of m0", func() bool { return ran() == n })
				}
				starts := int64(1)
				for range 5 {
					starts++
					kill("START isolated of m0", func() bool {
						records, err := c.Admin().Get(t.Context(), "/", queue, "m0")
						return err == nil && len(records) == 1 && records[0].Starts >= starts && records[0].OpenMode != rules.ModeShared
					})
					starts = one(t, c, queue, "m0").Starts
				}
				if r := one(t, c, queue, "m0"); r.Counted() != 0 || r.State != counter.StateLive || !r.Suspect {
					t.Errorf("after five kills: %+v", r)
				}
				last := direct.spawn(t)
				eventually(t, "m0 handled", func() bool { return ran() == 3 && queueDepth(t, queue) == 0 })
				terminate(t, last)
				if n := queueDepth(t, queue+".dlq"); n != 0 {
					t.Errorf("%d dead letters", n)
				}
				if r := one(t, c, queue, "m0"); r.State != counter.StateDone || r.Counted() != 0 {
					t.Errorf("in the end: %+v", r)
				}
			})
		})
	}
}
