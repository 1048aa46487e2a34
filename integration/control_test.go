package integration

import (
	"context"
	"errors"
	"fmt"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/counter/rules"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/ops"
	"github.com/strikesmq/strikes/topology"
)

// TestOperatorsAreObeyedAtTheNextStep: while two processes retry six messages, an operator raises the queue's limit.
// The operator also gives one message a limit of its own, and resets another. Both processes obey, and neither is
// restarted.
func TestOperatorsAreObeyedAtTheNextStep(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		spec, c := newChild(t, queue)
		spec.Backoff = 2 * time.Second // the changes are made before a message has failed four times
		all := []string{"m0", "m1", "m2", "m3", "m4", "m5"}
		spec.Fail = all
		first, second := spec.spawn(t), spec.spawn(t)
		eventually(t, "two consumers", func() bool { return consumers(t, queue) == 2 })
		publish(t, queue, "m", len(all))
		eventually(t, "a run of each message", func() bool {
			byID, _ := spec.runs(t)
			return len(byID) >= len(all)
		})
		limited, cleaned := counter.Message{VHost: "/", Queue: queue, ID: "m0"}, counter.Message{VHost: "/", Queue: queue,
			ID: "m1"}
		why := counter.Note{By: "jo", Why: "supplier down"}
		for _, m := range all {
			eventually(t, "a failed attempt of "+m, func() bool { return recorded(t, c, queue, m) })
		}
		for what, err := range map[string]error{
			"limit": c.Admin().SetLimit(t.Context(), "/", queue, counter.Override{MaxRetries: new(5), Note: why}),
			"own":   c.Admin().LimitMessage(t.Context(), limited, 8, why),
			"reset": c.Admin().Reset(t.Context(), cleaned, why),
		} {
			if err != nil {
				t.Fatalf("%s: %v", what, err)
			}
		}
		eventually(t, "every message dead-lettered", func() bool { return queueDepth(t, queue+".dlq") == len(all) })
		terminate(t, first, second)

		runs, late := map[string][]told{}, map[int]bool{}
		for _, l := range spec.told(t) {
			runs[l.id] = append(runs[l.id], l)
			if l.number > 4 { // beyond the limit of the processes
				late[l.pid] = true
			}
		}
		if len(late) != 2 {
			t.Errorf("only processes %v ran messages beyond their own limit", late)
		}
		for _, id := range all {
			checkObeyed(t, id, runs[id])
		}
		if r := one(t, c, queue, "m0"); r.OwnLimit != 8 || r.Failures != 8 {
			t.Errorf("record of m0: %+v", r)
		}
		if r := one(t, c, queue, "m1"); r.Reset.By != why.By || r.Failures != 6 {
			t.Errorf("record of m1: %+v", r)
		}
		if b, err := c.Admin().State(t.Context(), "/", queue); b.Tombstones.Count != int64(len(all)) || err != nil {
			t.Errorf("tombstones: %+v, %v", b.Tombstones, err)
		}
	})
}

func recorded(t *testing.T, c *counter.Counter, queue, id string) bool {
	t.Helper()
	records, err := c.Admin().Get(t.Context(), "/", queue, id)
	need(t, err)
	return len(records) == 1 && records[0].Counted() > 0
}

// checkObeyed checks the attempts at a message against the changes that the operator made to it.
func checkObeyed(t *testing.T, id string, runs []told) {
	t.Helper()
	want := []int{1, 2, 3, 4, 5, 6}
	switch id {
	case "m0":
		want = append(want, 7, 8)
	case "m1": // the attempts before the reset, then all again; one that ran through the reset was the first
		again := 1
		for again < len(runs) && runs[again].number > runs[again-1].number {
			again++
		}
		if again == len(runs) || runs[again].number > 2 {
			t.Errorf("m1 did not begin again: %v", runs)
			return
		}
		runs, want = runs[again:], want[runs[again].number-1:]
	}
	var numbers []int
	for _, l := range runs {
		numbers = append(numbers, l.number)
	}
	if !slices.Equal(numbers, want) {
		t.Errorf("attempts of %s: %v, want %v", id, numbers, want)
	}
	if l := runs[len(runs)-1]; l.last != want[len(want)-1] {
		t.Errorf("the last attempt of %s was told that %d is the last one: %+v", id, l.last, l)
	}
}

// TestPauseStopsEveryProcess: three processes with messages under way and messages that wait for their backoff
// stop, hold nothing and count nothing; after the resume they go on where they were.
func TestPauseStopsEveryProcess(t *testing.T) {
	const messages = 800 // a machine that does much else handles some before it pauses
	t.Parallel()
	for _, spec := range []topology.Spec{{Type: topology.Quorum}, {Type: topology.Classic, SingleActiveConsumer: true}} {
		t.Run(fmt.Sprintf("%s, single active consumer %v", spec.Type, spec.SingleActiveConsumer), func(t *testing.T) {
			t.Parallel()
			queue := declaredAs(t, spec)
			fleet, c := newChild(t, queue)
			fleet.Takes, fleet.Concurrency, fleet.Backoff, fleet.Fail = 40*time.Millisecond, 2, time.Minute, []string{"m1", "m2"}
			all := []process{fleet.spawn(t), fleet.spawn(t), fleet.spawn(t)}
			eventually(t, "three consumers", func() bool { return len(readers(t, c, queue)) == 3 })
			publish(t, queue, "m", messages)
			eventually(t, "two failures and some successes", func() bool {
				return recorded(t, c, queue, "m1") && recorded(t, c, queue, "m2") && handled(t, fleet) > 20
			})

			pauseQueue(t, c, queue, 3)
			before := handled(t, fleet)
			if before == messages {
				t.Fatal("the queue was empty before the pause")
			}
			eventually(t, "that no consumer is attached", func() bool { return consumers(t, queue) == 0 })
			time.Sleep(1500 * time.Millisecond)
			if after := handled(t, fleet); after != before {
				t.Errorf("%d attempts began during the pause", after-before)
			}
			if depth := queueDepth(t, queue); depth != messages-before+2 {
				t.Errorf("%d messages are in the queue, want the %d that were not handled and the two that failed", depth,
					messages-before)
			}
			for _, id := range fleet.Fail {
				if r := one(t, c, queue, id); r.Counted() != 1 {
					t.Errorf("the pause counted against %s: %+v", id, r)
				}
			}

			need(t, c.Admin().Resume(t.Context(), "/", queue, counter.Note{By: "jo"}))
			eventually(t, "every message handled", func() bool {
				return queueDepth(t, queue) == 0 && handled(t, fleet) >= messages
			})
			if n := handled(t, fleet); n != messages {
				t.Errorf("%d attempts at %d messages", n, messages)
			}
			terminate(t, all...)
			if left := readers(t, c, queue); len(left) != 0 {
				t.Errorf("after a stop: %v", left)
			}
		})
	}
}

// handled is how many attempts began.
func handled(t *testing.T, spec child) (n int) {
	t.Helper()
	byID, _ := spec.runs(t)
	for _, runs := range byID {
		n += runs
	}
	return n
}

// readers asks again while the store is slow: the machine may be busy with other tests.
func readers(t *testing.T, c *counter.Counter, queue string) (states []counter.ConsumerState) {
	t.Helper()
	eventually(t, "a reply of the store", func() bool {
		now, err := c.Admin().State(t.Context(), "/", queue)
		states = now.Consumers
		var store *counter.StoreError
		if errors.As(err, &store) && store.Fault == counter.FaultSlow {
			return false
		}
		need(t, err)
		return true
	})
	return states
}

// pauseQueue pauses a queue and waits until n processes have stopped. They need at most two seconds if they are given a
// processor: consumer.TestPauseEndsASession checks that without a real clock.
func pauseQueue(t *testing.T, c *counter.Counter, queue string, n int) {
	t.Helper()
	began := time.Now()
	need(t, c.Admin().Pause(t.Context(), "/", queue, counter.Note{By: "jo", Why: "supplier down"}))
	eventually(t, fmt.Sprintf("that %d processes stop", n), func() bool {
		stopped := 0
		for _, s := range readers(t, c, queue) {
			if s.Paused {
				stopped++
			}
		}
		return stopped == n
	})
	t.Logf("stopped in %v", time.Since(began))
}

// waitingStore has a paused queue, and deals no partition.
type waitingStore struct {
	*counter.Memory
	waits chan struct{} // gets one when the consumer waits
}

func (s waitingStore) Control(ctx context.Context, vhost, queue string, r counter.Reader) (counter.Control, error) {
	if r.Stopped {
		s.noteWait()
	}
	return s.Memory.Control(ctx, vhost, queue, r)
}

func (s waitingStore) Deal(context.Context, string, string, rules.DealRead) ([]int, error) {
	s.noteWait()
	return nil, nil
}

func (s waitingStore) noteWait() {
	select {
	case s.waits <- struct{}{}:
	default:
	}
}

// TestRunOutlivesARefusalAfterAWait: a process that waits for the end of a pause, or for a partition, loses its
// connection, and the queue is refused for a while, as when a broker restarts. Run goes on.
func TestRunOutlivesARefusalAfterAWait(t *testing.T) {
	t.Parallel()
	for name, c := range map[string]consumer.Consumer{"paused": {}, "idle": {Ordered: true, Partitions: 2}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			store := waitingStore{counter.NewMemory(nil), make(chan struct{}, 1)}
			c.Queue, c.Counter = uniqueName(t, "orders"), store
			c.Handler = func(context.Context, amqp.Delivery) error { return nil }
			need(t, store.Pause(t.Context(), "/", c.Queue, counter.Note{By: "jo", Why: "a test"}))
			ctx, stop := context.WithCancel(t.Context())
			checks := 0
			c.Check.Instead = func(_ context.Context, conn *amqp.Connection) error {
				switch checks++; checks {
				case 1:
					go func() {
						<-store.waits
						_ = conn.Close()
					}()
					return nil
				case 3:
					stop()
				}
				return errors.New("there is no such queue")
			}
			if err := c.Run(ctx, dialer(t)); err != nil {
				t.Errorf("Run ended after %d checks: %v", checks, err)
			}
		})
	}
}

// TestPausesLeaveNoGoroutine holds that a consumer of a queue with delay queues has as many goroutines after a pause as
// before.
func TestPausesLeaveNoGoroutine(t *testing.T) {
	q := newDelayQueue(t)
	q.run(0, func(int) time.Duration { return 0 })
	before := runtime.NumGoroutine()
	for range 5 {
		need(t, q.store.Pause(t.Context(), q.conn.Config.Vhost, q.name, counter.Note{By: "jo", Why: "a test"}))
		q.consumers(t, 0)
		need(t, q.store.Resume(t.Context(), q.conn.Config.Vhost, q.name, counter.Note{By: "jo", Why: "a test"}))
		q.consumers(t, 1)
	}
	need(t, poll.Until(t.Context(), time.Minute, "the goroutines of five pauses end", func() error {
		if now := runtime.NumGoroutine(); now > before+2 { // a read of the store, and its timer
			return fmt.Errorf("%d goroutines, %d before the pauses", now, before)
		}
		return nil
	}))
}

// consumers waits until the queue has so many.
func (q *delayQueue) consumers(t *testing.T, want int) {
	t.Helper()
	need(t, poll.Until(t.Context(), time.Minute, fmt.Sprintf("the queue has %d consumers", want), func() error {
		have := 0
		q.must(func(ch *amqp.Channel) error {
			state, err := ch.QueueDeclarePassive(q.name, true, false, false, false, nil)
			have = state.Consumers
			return err
		})
		if have != want {
			return fmt.Errorf("it has %d", have)
		}
		return nil
	}))
}

// TestStatusShowsErrors: a queue that loses its dead letters does not look healthy, alone or among others, also if
// nothing died yet.
func TestStatusShowsErrors(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	bare, whole := b.name(), b.name()
	b.queue(bare, nil)
	b.queue(whole, classic(whole))
	b.way(whole, "fanout", "")
	store := dialStore(t, patientURL(t))
	all := ops.Collector{VHost: "/", Store: store.Admin(), Dial: dialer(t),
		API: inspect.Need{Management: managementURL(t)}}
	defer all.Close()
	codes := func(found []inspect.Finding) (out []string) {
		for _, f := range found {
			out = append(out, f.Code)
		}
		return out
	}
	want := []string{inspect.CodeNoDeadLetterExchange}
	eventually(t, "an overview with the error of one queue alone", func() bool {
		o, err := all.All(t.Context())
		need(t, err)
		if failed := o.Failed(); failed != nil { // the servers of a busy machine answer late
			t.Log(failed)
			return false
		}
		seen := map[string]ops.Status{}
		for _, s := range o.Queues {
			seen[s.Queue] = s
		}
		if len(seen[whole].Findings) > 0 || seen[whole].Trouble == ops.TroubleRoute {
			t.Fatalf("%+v", seen[whole])
		}
		return slices.Equal(codes(seen[bare].Findings), want) && seen[bare].Trouble == ops.TroubleRoute
	})
	for queue, want := range map[string][]string{bare: want, whole: nil} {
		s, err := all.Collect(t.Context(), ops.Question{Queue: queue})
		if err != nil || !slices.Equal(codes(s.Findings), want) {
			t.Errorf("%s: %v, %v; want %v", queue, codes(s.Findings), err, want)
		}
	}
}

// TestStatusOfSeveralDeadLetterQueues: dead letters that land in two queues are shown in both, alone and among others.
func TestStatusOfSeveralDeadLetterQueues(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	queue := b.name()
	second := b.named(queue + ".second")
	b.queue(queue, classic(queue))
	b.way(queue, "fanout", "")
	b.queue(second, nil)
	b.bind(second, "", queue+".dlx")
	b.publish(queue+".dlx", "", "one", "two")
	all := ops.Collector{VHost: "/", Store: dialStore(t, patientURL(t)).Admin(), Dial: dialer(t),
		API: inspect.Need{Management: managementURL(t)}}
	defer all.Close()
	s, err := all.Collect(t.Context(), ops.Question{Queue: queue})
	want := []ops.Landing{{Queue: queue + ".dlq", Holds: new(2)}, {Queue: second, Holds: new(2)}}
	if diff := cmp.Diff(want, s.Dead.Landings); err != nil || diff != "" {
		t.Errorf("%v\n%s", err, diff)
	}
	if where := s.Dead.Holding(); !strings.Contains(where, second+" holds 2") {
		t.Error(where)
	}
	eventually(t, "both queues in the overview", func() bool {
		o, err := all.All(t.Context())
		need(t, err)
		i := slices.IndexFunc(o.Queues, func(s ops.Status) bool { return s.Queue == queue })
		return i >= 0 && slices.ContainsFunc(o.Queues[i].Facts(o.Time), func(f ops.Fact) bool {
			return f.Text == "dead letters land in 2 queues"
		})
	})
}

// TestStatusCountsWaitingConsumers: two processes consume a queue with a single active consumer, and one of them waits.
func TestStatusCountsWaitingConsumers(t *testing.T) {
	t.Parallel()
	queue := declaredAs(t, topology.Spec{Type: topology.Quorum, SingleActiveConsumer: true})
	for range 2 {
		subscribe(t, dialBroker(t), queue, 1, nil)
	}
	all := ops.Collector{VHost: "/", Store: dialStore(t, patientURL(t)).Admin(), Dial: dialer(t),
		API: inspect.Need{Management: managementURL(t)}}
	defer all.Close()
	eventually(t, "both consumers, once the management API has them", func() bool {
		s, err := all.Collect(t.Context(), ops.Question{Queue: queue})
		need(t, err)
		return *s.Consumers == 2
	})
}
