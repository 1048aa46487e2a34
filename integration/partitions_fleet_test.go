package integration

import (
	"bufio"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// member is a process of a fleet. It writes a line to Ledger, with one write(2), when an attempt begins and when it
// ends.
type member struct {
	AMQP, Redis, Prefix, Queue, Ledger string
	Partitions                         int
	Takes                              time.Duration // an attempt
	Requeue                            bool
	Hold                               bool // HoldLanes, and a message of each key is dead-lettered
	Concurrency                        int  // if zero, 8
}

func (m member) run(ctx context.Context) error {
	ledger, err := os.OpenFile(m.Ledger, os.O_APPEND|os.O_WRONLY, 0o600)
	if err != nil {
		return err
	}
	counts, err := counter.Dial(m.Redis, &counter.Options{Prefix: m.Prefix})
	if err != nil {
		return err
	}
	c := consumer.Consumer{
		Queue: m.Queue, Partitions: m.Partitions, Ordered: true, Counter: counts,
		Concurrency: cmp.Or(m.Concurrency, 8), MaxRetries: 20,
		Backoff: func(int) time.Duration { return 5 * time.Millisecond },
		Handler: func(ctx context.Context, d amqp.Delivery) error {
			note := func(what string) error {
				_, err := fmt.Fprintf(ledger, "%s %s %s %d %d\n", what, keyOf(d), d.Body, os.Getpid(), time.Now().UnixMilli())
				return err
			}
			if err := note("b"); err != nil {
				return err
			}
			time.Sleep(m.Takes)
			if ctx.Err() != nil { // its session is lost, and the message is another process's
				_ = note("x")
				return ctx.Err()
			}
			if _, again := d.Headers[broker.LineageHeader]; m.Hold && !again && rejects(string(d.Body)) {
				_ = note("f")
				return consumer.Reject(errors.New("it is dead-lettered"))
			}
			if a, _ := consumer.AttemptFrom(ctx); a.Number <= failsOf(keyOf(d), string(d.Body)) {
				_ = note("f")
				return errors.New("it fails at first")
			}
			return note("d")
		},
		HoldLanes: m.Hold,
	}
	if m.Requeue {
		c.Retry, c.Concurrency = consumer.RetryRequeue, 1
	}
	return c.Run(ctx, consumer.Dialer(m.AMQP, amqp.Config{}))
}

// failsOf is how many attempts at a message fail: one or two of a tenth of the messages.
func failsOf(key, seq string) int {
	h := fnv.New32a()
	_, _ = h.Write([]byte(key + "/" + seq))
	if n := h.Sum32() % 20; n < 2 {
		return int(n) + 1
	}
	return 0
}

// rejects reports whether a message is dead-lettered before its replay: one in a hundred of each key.
func rejects(seq string) bool {
	n, _ := strconv.Atoi(seq)
	return n%100 == 7
}

// keyOf is the key with which a message was published, also of one that a replay published to its partition.
func keyOf(d amqp.Delivery) string {
	key, _ := d.Headers["key"].(string)
	return key
}

// group is a partitioned queue and the processes that consume it.
type group struct {
	t       *testing.T
	spec    member
	store   *counter.Counter
	live    []process
	links   []*proxy.Proxy // of each process that lives, to the broker
	settled time.Duration  // the longest time until the shares were even

	faults    []string         // which, when, and at which process
	cuts      map[int]int64    // when the connection of a process was last cut, in ms
	published map[string]int64 // when a message of a key and number was published, in ms
	ready     map[string]int64 // when the last attempt at a key ended
}

func newGroup(t *testing.T, kind topology.Type, partitions int, redis string, spec member) *group {
	t.Helper()
	f := &group{t: t, spec: spec, published: map[string]int64{}, cuts: map[int]int64{}}
	f.spec.Redis, f.spec.Partitions = redis, partitions
	f.spec.Queue, f.spec.Prefix = uniqueName(t, "fleet"), uniqueName(t, "test")
	f.spec.Ledger = filepath.Join(t.TempDir(), "ledger")
	need(t, os.WriteFile(f.spec.Ledger, nil, 0o600))
	declarePartitions(t, topology.Spec{Queue: f.spec.Queue, Type: kind, Partitions: partitions})
	f.store = ofPrefix(t, f.spec.Prefix)
	return f
}

// declarePartitions declares a partitioned queue that DeleteLater deletes.
func declarePartitions(t testing.TB, s topology.Spec) {
	t.Helper()
	need(t, topology.Declare(t.Context(), dialBroker(t), s))
	for i := range s.Partitions {
		deleteLater(t, broker.Partition(s.Queue, i))
	}
	deleteLater(t, s.Queue, s.Queue+".dlx", s.Queue+".dlq", broker.HashExchange(s.Queue, s.Partitions))
}

func (f *group) join() {
	f.t.Helper()
	link, through := proxied(f.t, brokerURL(f.t))
	spec := f.spec
	spec.AMQP = through
	f.live, f.links = append(f.live, worker{Member: &spec}.spawn(f.t)), append(f.links, link)
}

// stop stops a process as a deployment does.
func (f *group) stop(i int) {
	f.t.Helper()
	terminate(f.t, f.leave(i))
}

func (f *group) kill(i int) {
	f.t.Helper()
	f.leave(i).crash()
}

func (f *group) leave(i int) process {
	p := f.live[i]
	f.live, f.links = slices.Delete(f.live, i, i+1), slices.Delete(f.links, i, i+1)
	return p
}

// awaitEven waits until each partition has a process and their numbers differ by one at most.
func (f *group) awaitEven() {
	f.t.Helper()
	limit := time.Minute // of a machine that does much else
	if os.Getenv("STRIKES_PARTITIONS") != "" {
		limit = 10 * time.Second // as docs/guarantees.md promises
	}
	began := time.Now()
	for {
		d, err := f.store.Admin().Dealt(f.t.Context(), "/", f.spec.Queue)
		least, most, sum := f.spec.Partitions, 0, 0
		for _, m := range d.Members {
			n := len(m.Partitions)
			least, most, sum = min(least, n), max(most, n), sum+n
		}
		if err == nil && len(d.Members) == len(f.live) && sum == f.spec.Partitions && most-least <= 1 {
			f.settled = max(f.settled, time.Since(began))
			return
		}
		if time.Since(began) > limit {
			f.t.Errorf("after %v the shares are not even: %d processes live, dealt %+v, %v", limit, len(f.live), d, err)
			return
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// verdict is the result of reading a ledger.
type verdict struct {
	attempts, done, tooEarly, atOnce int
	times                            []int64       // of the ends of those that are done, in ms
	waited                           time.Duration // the longest time for which a key waited with no attempt of it
	examples                         []string
}

// audit reads the ledger. A message is too early if it begins before the one ahead of it is done. Two attempts at one
// key overlap if one ends after the other has begun, unless it ends because its session was lost. A process on a busy
// machine may learn only later that its connection was cut, so an end within three seconds of that counts as such.
func (f *group) audit() (v verdict) {
	file, err := os.Open(f.spec.Ledger)
	need(f.t, err)
	defer file.Close()
	type running struct{ pid, seq int }
	f.ready = map[string]int64{}
	done, runs, passed := map[string]int{}, map[string]running{}, map[string]running{}
	for lines := bufio.NewScanner(file); lines.Scan(); {
		var what, key string
		var seq, pid int
		var at int64
		if _, err := fmt.Sscan(lines.Text(), &what, &key, &seq, &pid, &at); err != nil {
			f.t.Fatalf("ledger: %q: %v", lines.Text(), err)
		}
		switch what {
		case "b":
			v.attempts++
			v.waited = max(v.waited, time.Duration(at-max(f.ready[key], f.published[fmt.Sprint(key, seq)]))*time.Millisecond)
			if seq > done[key]+1 {
				v.tooEarly++
				v.examples = append(v.examples, fmt.Sprintf("%s, done to %d", lines.Text(), done[key]))
			}
			if r, busy := runs[key]; busy {
				passed[key] = r
			}
			runs[key] = running{pid, seq}
		default:
			switch me := (running{pid, seq}); {
			case runs[key] == me:
				delete(runs, key)
			case passed[key] == me && what != "x" && !f.isCut(pid, at):
				v.atOnce++
				v.examples = append(v.examples, fmt.Sprintf("%s, while %d runs %d", lines.Text(), runs[key].pid, runs[key].seq))
			}
			f.ready[key] = at
			if what == "d" && seq == done[key]+1 {
				done[key], v.done, v.times = seq, v.done+1, append(v.times, at)
			}
		}
	}
	return v
}

// auditOnce audits once so many messages are done, or after a minute.
func (f *group) auditOnce(done int) (v verdict) {
	for deadline := time.Now().Add(time.Minute); ; time.Sleep(100 * time.Millisecond) {
		if v = f.audit(); v.done >= done || time.Now().After(deadline) {
			return v
		}
	}
}

// feed publishes messages of so many keys, each with its number within its key: rate of them a second, if it is not
// zero, and none while more than ahead wait.
func (f *group) feed(messages, keys, ahead, rate int) {
	f.t.Helper()
	began := time.Now()
	p, err := publisher.New(dialer(f.t), nil)
	need(f.t, err)
	defer p.Close()
	to := publisher.Partitions{Queue: f.spec.Queue, N: f.spec.Partitions}
	for sent := 0; sent < messages && !f.t.Failed(); {
		var batch []publisher.Message
		for range min(200, messages-sent) {
			key, seq := fmt.Sprintf("key-%d", sent%keys), sent/keys+1
			m, err := to.Message(key, amqp.Publishing{Body: fmt.Append(nil, seq), Headers: amqp.Table{"key": key}})
			need(f.t, err)
			batch, sent = append(batch, m), sent+1
		}
		if err := p.PublishAll(f.t.Context(), batch); err != nil {
			f.t.Errorf("publishing: %v", err)
			return
		}
		if rate > 0 {
			time.Sleep(time.Until(began.Add(time.Duration(sent) * time.Second / time.Duration(rate))))
		}
		for f.waiting() > ahead && f.t.Context().Err() == nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
}

func (f *group) waiting() (n int) {
	for i := range f.spec.Partitions {
		n += queueDepth(f.t, broker.Partition(f.spec.Queue, i))
	}
	return n
}

// isCut reports whether the connection of a process was cut in the three seconds before a time in ms.
func (f *group) isCut(pid int, at int64) bool {
	cut := f.cuts[pid]
	return cut <= at && at-cut < 3000
}

// soak is how long and how hard a fleet is tested.
type soak struct {
	Messages, Keys, Partitions, Processes, Faults int
	Rate                                          int // messages a second; if zero, as fast as they are handled
	Type                                          topology.Type
	Requeue, Hold                                 bool
	Freeze, Outage                                time.Duration
}

// fleetFaults are the faults of a fleet, over and over. A stop and a leave are a SIGTERM.
var fleetFaults = []string{"kill", "stop", "cut", "join", "store away", "leave", "kill", "stop", "cut"}

// TestPartitionFleet has processes join, be stopped, killed and cut off, and the store be away, while messages of many
// keys are handled. The environment's STRIKES_PARTITIONS, fields of a long soak in JSON, makes it longer: see make
// soak-partitions.
func TestPartitionFleet(t *testing.T) {
	t.Parallel()
	soaks := map[string]soak{
		"quorum": {Messages: 2500, Keys: 100, Partitions: 8, Processes: 3, Faults: 6, Outage: 2 * time.Second},
		"classic, requeued": {Messages: 600, Keys: 40, Partitions: 4, Processes: 2, Faults: 3, Type: topology.Classic,
			Requeue: true, Outage: time.Second},
	}
	if os.Getenv("STRIKES_LONG") != "" {
		soaks["held lanes"] = soak{Messages: 5000, Keys: 100, Partitions: 8, Processes: 4, Faults: 12, Hold: true,
			Outage: 2 * time.Second}
	}
	if text := os.Getenv("STRIKES_PARTITIONS"); text != "" {
		long := soak{Messages: 100_000, Rate: 270, Keys: 500, Partitions: 8, Processes: 4, Faults: 129,
			Freeze: 12 * time.Second, Outage: 10 * time.Second}
		need(t, json.Unmarshal([]byte(text), &long))
		soaks = map[string]soak{"soak": long}
	}
	for name, s := range soaks {
		t.Run(name, func(t *testing.T) { s.run(t) })
	}
}

func (s soak) run(t *testing.T) {
	store, through := proxied(t, redisURL(t))
	f := newGroup(t, s.Type, s.Partitions, through, member{Takes: 2 * time.Millisecond, Requeue: s.Requeue,
		Hold: s.Hold})
	for range s.Processes {
		f.join()
	}
	f.awaitEven()
	fed := make(chan struct{})
	began := time.Now()
	go func() { defer close(fed); f.feed(s.Messages, s.Keys, 20*s.Partitions, s.Rate) }()
	over, replayed := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(replayed)
		if s.Hold {
			f.replayLanes(over)
		}
	}()
	faults := map[string]int{}
	for n := 0; n < s.Faults && !t.Failed(); n++ {
		time.Sleep(time.Duration(200+rand.IntN(800)) * time.Millisecond)
		i := rand.IntN(len(f.live))
		fault := fleetFaults[n%len(fleetFaults)]
		faults[fault]++
		f.faults = append(f.faults, fmt.Sprintf("%d %s %d", time.Now().UnixMilli(), fault, f.live[i].Pid))
		switch fault {
		case "kill":
			f.kill(i)
			f.awaitEven()
			f.join()
		case "stop":
			f.stop(i)
			f.join()
		case "cut":
			f.cuts[f.live[i].Pid] = time.Now().UnixMilli()
			f.links[i].Cut()
		case "join":
			f.join()
		case "store away":
			store.Refuse(true)
			store.Cut()
			time.Sleep(s.Outage)
			store.Refuse(false)
		case "leave":
			f.stop(i)
		}
		f.awaitEven()
	}
	if s.Freeze > 0 {
		faults["freeze"]++
		_ = f.live[0].Signal(syscall.SIGSTOP)
		time.Sleep(s.Freeze)
		_ = f.live[0].Signal(syscall.SIGCONT)
		f.awaitEven()
	}
	<-fed
	close(over)
	<-replayed
	v := f.auditOnce(s.Messages)
	t.Logf("%d messages of %d keys, %d partitions, faults %v: %d attempts in %v; too early %d, at once %d, stuck %d; "+
		"shares even within %v", s.Messages, s.Keys, s.Partitions, faults, v.attempts, time.Since(began).Round(time.Second),
		v.tooEarly, v.atOnce, s.Messages-v.done, f.settled.Round(10*time.Millisecond))
	if v.tooEarly+v.atOnce > 0 || v.done != s.Messages {
		t.Errorf("want 0, 0 and 0: %q; faults %q", v.examples[:min(len(v.examples), 5)], f.faults)
	}
	if d, err := f.store.Admin().State(t.Context(), "/", f.spec.Queue); err != nil || len(d.Consumers) == 0 {
		t.Errorf("processes known to operators: %v, %v", d.Consumers, err)
	}
}

// replayLanes replays blocked lanes until the faults are over and none is left. Until then it goes on whatever happens.
func (f *group) replayLanes(over <-chan struct{}) {
	f.t.Helper()
	admin, released := f.store.Admin(), 0
	q, err := deadletter.Open(f.t.Context(), deadletter.Queue{Name: f.spec.Queue + ".dlq", Partitioned: f.spec.Queue,
		Partitions: f.spec.Partitions, Dial: dialer(f.t), Records: admin}, deadletter.Management{URL: managementURL(f.t)})
	if err != nil {
		f.t.Error(err)
		return
	}
	for last := time.Now(); ; {
		strict := false
		select {
		case <-over:
			strict = true
		case <-time.After(time.Second):
		}
		blocked, _, err := ops.Lanes(f.t.Context(), admin, "/", broker.Partitions(f.spec.Queue, f.spec.Partitions),
			math.MaxInt)
		switch {
		case err != nil || strict && time.Since(last) > 2*time.Minute:
			f.t.Errorf("%d lanes are blocked, %d were released, none of them lately: %v", len(blocked), released, err)
			return
		case strict && len(blocked) == 0 && f.waiting() == 0:
			f.t.Logf("%d lanes released", released)
			return
		}
		var work []deadletter.Lane
		for _, l := range blocked {
			work = append(work, deadletter.Lane{Queue: l.Queue, Name: l.Lane, Store: admin})
		}
		err = q.ReplayLanes(f.t.Context(), work, func(_ deadletter.Lane, r deadletter.LaneResult, err error) error {
			if r.Released {
				released, last = released+1, time.Now()
			}
			if strict && err != nil && !errors.Is(err, deadletter.ErrLaneFailed) {
				return err
			}
			return nil
		})
		if strict && err != nil {
			f.t.Error(err)
			return
		}
	}
}

// TestPartitionRollingDeploy replaces four processes under load, one after the other. With -figures, on a quiet
// machine, no key may wait longer than 3 s beyond its handlers.
func TestPartitionRollingDeploy(t *testing.T) {
	servertest.Long(t)
	const keys, want = 50, 3 * time.Second
	f := newGroup(t, topology.Quorum, 8, redisURL(t), member{Takes: 5 * time.Millisecond})
	for range 4 {
		f.join()
	}
	f.awaitEven()
	deployed, fed, sent := make(chan struct{}), make(chan struct{}), new(atomic.Int64)
	go func() {
		defer close(fed)
		p, err := publisher.New(dialer(t), nil)
		if err != nil {
			t.Error(err)
			return
		}
		defer p.Close()
		to := publisher.Partitions{Queue: f.spec.Queue, N: f.spec.Partitions}
		for tick := time.NewTicker(50 * time.Millisecond); ; <-tick.C { // 300 messages a second
			var batch []publisher.Message
			for range 15 {
				n := int(sent.Add(1)) - 1
				key, seq := fmt.Sprintf("key-%d", n%keys), n/keys+1
				m, _ := to.Message(key, amqp.Publishing{Body: fmt.Append(nil, seq), Headers: amqp.Table{"key": key}})
				f.published[fmt.Sprint(key, seq)] = time.Now().UnixMilli()
				batch = append(batch, m)
			}
			if err := p.PublishAll(t.Context(), batch); err != nil {
				t.Error(err)
				return
			}
			select {
			case <-deployed:
				return
			default:
			}
		}
	}()
	underLoad := func() { // half a second of it at least
		f.awaitEven()
		enough := sent.Load() + 150
		eventually(t, "messages published", func() bool { return sent.Load() >= enough || t.Failed() })
	}
	for range 12 { // three deploys
		f.join()
		underLoad()
		f.stop(0)
		underLoad()
	}
	close(deployed)
	<-fed
	n := int(sent.Load())
	v := f.auditOnce(n)
	t.Logf("%d messages, done %d, too early %d, at once %d; the longest wait of a key %v", n, v.done, v.tooEarly,
		v.atOnce, v.waited)
	if v.done != n || v.tooEarly+v.atOnce > 0 || *figures && v.waited > want {
		t.Errorf("want all, 0, 0, and %v at most: %q", want, v.examples)
	}
}

// TestPartitionFleetIsFaster prints how much faster four processes are than one, if each handles one message at a time,
// in 5 ms. With -figures, on a quiet machine, it wants 2.5 times.
func TestPartitionFleetIsFaster(t *testing.T) {
	servertest.Long(t)
	const from, until, want = 200, 1200, 2.5
	speed := func(processes int) float64 {
		f := newGroup(t, topology.Quorum, 8, redisURL(t), member{Takes: 5 * time.Millisecond, Concurrency: 1})
		for range processes {
			f.join()
		}
		f.awaitEven()
		f.feed(until+from, 100, until+from, 0)
		v := f.auditOnce(until)
		if v.done < until {
			t.Fatalf("%d processes: %d messages in a minute", processes, v.done)
		}
		slices.Sort(v.times)
		return (until - from) * 1000 / float64(v.times[until-1]-v.times[from-1])
	}
	one, four := speed(1), speed(4)
	t.Logf("one process %.0f messages/s, four %.0f: %.1f times", one, four, four/one)
	if *figures && four < want*one {
		t.Errorf("four processes are %.1f times as fast as one, want %.1f", four/one, want)
	}
}
