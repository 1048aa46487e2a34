package integration

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
)

// harmless is the handling of a queue that topology.Declare made.
var harmless = deadletter.Handling{Take: true, Hold: true}

// withDeadLetters returns a queue with dead letters m0, m1, …, made by rejecting them.
func withDeadLetters(t *testing.T, queue string, n int) *deadletter.Queue {
	t.Helper()
	publish(t, queue, "m", n)
	reject(t, queue, n)
	return deadLetterQueue(t, queue)
}

func deadLetterQueue(t *testing.T, queue string) *deadletter.Queue {
	t.Helper()
	return &deadletter.Queue{Name: queue + ".dlq", Dial: dialer(t), Handling: harmless}
}

// reject dead-letters the first n messages of a queue, in order.
func reject(t *testing.T, queue string, n int) {
	t.Helper()
	before := queueDepth(t, queue+".dlq")
	need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
		for range n {
			d, ok, err := ch.Get(queue, false)
			if err != nil || !ok {
				return fmt.Errorf("got %v, %w", ok, err)
			}
			if err := d.Nack(false, false); err != nil {
				return err
			}
		}
		return errOf(ch.QueueDeclarePassive(queue, false, false, false, false, nil))
	}))
	eventually(t, "the dead letters", func() bool { return queueDepth(t, queue+".dlq") == before+n })
}

func numbered(prefix string, n int) []string {
	var out []string
	for i := range n {
		out = append(out, fmt.Sprint(prefix, i))
	}
	return out
}

func browsed(t *testing.T, q *deadletter.Queue, f deadletter.Filter) []*deadletter.Message {
	t.Helper()
	var all []*deadletter.Message
	for l, err := range q.Browse(t.Context(), f) {
		need(t, err)
		all = append(all, l)
	}
	return all
}

func idsOf(letters []*deadletter.Message) []string {
	var out []string
	for _, l := range letters {
		out = append(out, l.ID)
	}
	return out
}

// TestReplayAll replays everything, with several windows: each message once, in its order, with a new life and its
// lineage.
func TestReplayAll(t *testing.T) {
	t.Parallel()
	for _, window := range []int{1, 7, 100} {
		t.Run(fmt.Sprint("window ", window), func(t *testing.T) {
			eachType(t, func(t *testing.T, queue string) {
				t.Parallel() // most of it is waiting
				const n = 250
				q := withDeadLetters(t, queue, n)
				r, err := q.Replay(t.Context(), deadletter.Replay{Window: window})
				if err != nil || r.Done != n || r.Left != 0 || len(r.Undecided) != 0 {
					t.Fatalf("%d replayed, %d left, %v unsure, %v", r.Done, r.Left, r.Undecided, err)
				}
				if left := queueDepth(t, q.Name); left != 0 {
					t.Errorf("%d dead letters are left", left)
				}
				back := getAll(t, queue)
				if diff := cmp.Diff(numbered("m", n), ids(back)); diff != "" {
					t.Fatal(diff)
				}
				d := back[3]
				lineage, _ := d.Headers[deadletter.LineageHeader].(amqp.Table)
				if d.Headers["x-death"] != nil || d.Headers[consumer.GenerationHeader] == "" || lineage["count"] != int64(1) ||
					lineage["queue"] != queue || lineage["from"] != q.Name || lineage["reason"] != "rejected" {
					t.Errorf("%v", d.Headers)
				}
			})
		})
	}
}

// TestReplayStopped stops replays of everything in the middle. The messages that had been read before must stay in
// their order.
func TestReplayStopped(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, window := range []int{1, 7} {
		t.Run(fmt.Sprint("window ", window), func(t *testing.T) {
			eachType(t, func(t *testing.T, queue string) {
				t.Parallel() // most of it is waiting
				const n = 500
				q := withDeadLetters(t, queue, n)
				for left := n; left > 0; {
					ctx, stop := context.WithCancel(t.Context())
					told := 0
					r, err := q.Replay(ctx, deadletter.Replay{Window: window, OnMessage: func(*deadletter.Message, error) {
						if told++; told == 70 {
							stop()
						}
					}})
					stop()
					left -= r.Done
					if err != nil && !errors.Is(err, context.Canceled) || r.Done == 0 {
						t.Fatalf("%d replayed, %v", r.Done, err)
					}
					if diff := cmp.Diff(numbered("m", n)[n-left:], idsOf(browsed(t, q, deadletter.Filter{})),
						cmpopts.EquateEmpty()); diff != "" {
						t.Fatalf("%d are left:\n%s", left, diff)
					}
				}
				if diff := cmp.Diff(numbered("m", n), ids(getAll(t, queue))); diff != "" {
					t.Error(diff)
				}
			})
		})
	}
}

// TestReplayChoice replays some; the others must stay in their places.
func TestReplayChoice(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		const n = 200
		q := withDeadLetters(t, queue, n)
		var pick, rest []string
		for i, id := range numbered("m", n) {
			if i%3 == 0 {
				pick = append(pick, id)
			} else {
				rest = append(rest, id)
			}
		}
		r, err := q.Replay(t.Context(), deadletter.Replay{Filter: deadletter.Filter{IDs: pick}, Window: 10, Max: 50})
		if err != nil || r.Done != 50 {
			t.Fatalf("%+v, %v", r, err)
		}
		r, err = q.Replay(t.Context(), deadletter.Replay{Filter: deadletter.Filter{IDs: pick}, Window: 100})
		if err != nil || r.Done != len(pick)-50 {
			t.Fatalf("%+v, %v", r, err)
		}
		if diff := cmp.Diff(pick, ids(getAll(t, queue))); diff != "" {
			t.Error(diff)
		}
		if diff := cmp.Diff(rest, ids(getAll(t, q.Name))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestReplayLeavesWhatCannotGo has a dead letter that does not say where it died, one whose queue is gone, and one that
// can go.
func TestReplayLeavesWhatCannotGo(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		q := deadLetterQueue(t, queue)
		publishBare(t, q.Name, amqp.Publishing{MessageId: "stray"},
			amqp.Publishing{MessageId: "gone", Headers: diedIn(uniqueName(t, "gone"))})
		publish(t, queue, "m", 1)
		reject(t, queue, 1)

		q.Handling.Hold, q.Handling.Why = false, "looks are counted"
		r, err := q.Replay(t.Context(), deadletter.Replay{})
		if !errors.Is(err, deadletter.ErrNoOrigin) || !strings.Contains(err.Error(), "looks are counted") || r.Done != 0 ||
			r.Left != 3 {
			t.Errorf("all: %+v, %v", r, err)
		}
		q.Handling = harmless
		told := map[string]error{}
		r, err = q.Replay(t.Context(), deadletter.Replay{
			Filter: deadletter.Filter{IDs: []string{"stray", "gone", "m0"}}, OnMessage: func(l *deadletter.Message, err error) {
				told[l.ID] = err
			},
		})
		if err != nil || r.Done != 1 || r.Left != 2 || len(told) != 3 || told["stray"] == nil || told["gone"] == nil ||
			told["m0"] != nil {
			t.Errorf("picked: %+v, %v, %v", r, err, told)
		}
		if got := ids(getAll(t, q.Name)); !slices.Equal(got, []string{"stray", "gone"}) {
			t.Errorf("left: %v", got)
		}
	})
}

// TestReplayPassesOver replays everything around messages that cannot be published, which stay in their order.
func TestReplayPassesOver(t *testing.T) {
	t.Parallel()
	for _, mode := range []struct {
		window       int
		gone, looked bool
	}{{window: 1}, {window: 10, looked: true}, {window: 40, looked: true}, {window: 10, gone: true, looked: true},
		{window: 40, gone: true}} {
		t.Run(fmt.Sprintf("%+v", mode), func(t *testing.T) {
			eachType(t, func(t *testing.T, queue string) {
				t.Parallel() // most of it is waiting
				const n = 120
				q := deadLetterQueue(t, queue)
				var stay []string
				for i := range 3 {
					stray := fmt.Sprint("stray", i)
					stay = append(stay, stray)
					var headers amqp.Table
					if mode.gone {
						headers = diedIn(uniqueName(t, "gone"))
					}
					publishAll(t, publisher.Message{Key: q.Name, Publishing: amqp.Publishing{MessageId: stray, Headers: headers}})
					publish(t, queue, fmt.Sprint("m", i, "."), n/3)
					reject(t, queue, n/3)
				}
				if mode.looked {
					browsed(t, q, deadletter.Filter{})
				}
				told := map[string]int{}
				r, err := q.Replay(t.Context(), deadletter.Replay{Window: mode.window, OnMessage: func(l *deadletter.Message,
					err error) {
					if told[l.ID]++; (err != nil) != slices.Contains(stay, l.ID) {
						t.Errorf("%s: %v", l.ID, err)
					}
				}})
				if err != nil || r.Done != n || r.Left != len(stay) || len(told) != n+len(stay) {
					t.Errorf("%+v, %v, told of %d", r, err, len(told))
				}
				want := slices.Concat(numbered("m0.", n/3), numbered("m1.", n/3), numbered("m2.", n/3))
				if diff := cmp.Diff(want, ids(getAll(t, queue))); diff != "" {
					t.Error(diff)
				}
				if got := ids(getAll(t, q.Name)); !slices.Equal(got, stay) {
					t.Errorf("left: %v", got)
				}
			})
		})
	}
}

// openDead opens a dead-letter queue as an operator does.
func openDead(t *testing.T, q deadletter.Queue) *deadletter.Queue {
	t.Helper()
	q.Dial = dialer(t)
	opened, err := deadletter.Open(t.Context(), q, managementAPI(t))
	need(t, err)
	return opened
}

func managementAPI(t *testing.T) deadletter.Management {
	return deadletter.Management{URL: managementURL(t)}
}

// TestUndecodableDeadLettersAreTakenOut takes out those between others that were read before, so that a quorum queue
// changes the order at each look. All others stay. amqp091-go can decode neither headers that are too deep, nor those
// that have outgrown a frame when their message died. The error of a look says which queue and what to do.
func TestUndecodableDeadLettersAreTakenOut(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		all := []string{"a", "b", "bad1", "c", "bad2", "d", "bad3"}
		for _, id := range all {
			m := amqp.Publishing{MessageId: id, Body: []byte("the same")}
			switch {
			case id == "bad1":
				m.Headers = amqp.Table{"h": strings.Repeat("a", 130900)}
				publishBare(t, queue, m)
				reject(t, queue, 1)
				continue
			case strings.HasPrefix(id, "bad"):
				m.Headers = nested(40)
			}
			publishBare(t, queue+".dlq", m)
		}
		q := deadLetterQueue(t, queue)
		looks := 0 // which have the others behind an undecodable one returned too
		for _, err := range q.Browse(t.Context(), deadletter.Filter{}) {
			if looks++; !errors.Is(err, deadletter.ErrUndecodable) || !errors.Is(err, deadletter.ErrInterrupted) ||
				!containsAll(err.Error(), q.Name, "TakeUndecodable") {
				t.Errorf("browsing: %v, want the queue and the way out", err)
			}
		}
		if looks == 0 {
			t.Error("the queue was empty")
		}
		var kept []string
		for {
			at, err := q.TakeUndecodable(t.Context(), managementAPI(t), func(m []byte) error {
				kept = append(kept, string(m))
				return nil
			})
			if errors.Is(err, deadletter.ErrAllDecodable) {
				break
			}
			if need(t, err); at < 1 || at > len(all) {
				t.Errorf("taken from position %d", at)
			}
		}
		if len(kept) != 3 {
			t.Errorf("%d were taken out, want 3", len(kept))
		}
		for i, bad := range []string{"bad1", "bad2", "bad3"} {
			if !strings.Contains(strings.Join(kept, " "), `"message_id":"`+bad+`"`) {
				t.Errorf("%s was not taken out (%d of %d)", bad, i, len(kept))
			}
		}
		left := ids(getAll(t, queue+".dlq"))
		if slices.Sort(left); !slices.Equal(left, []string{"a", "b", "c", "d"}) {
			t.Errorf("left: %v", left)
		}
	})
}

// TestReplayStopsWhenItFailsAgain has a consumer at work that fails everything again.
func TestReplayStopsWhenItFailsAgain(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		c := counters(t)
		const n = 40
		publish(t, queue, "m", n)
		start(t, consumer.Consumer{
			Queue: queue, Counter: c, MaxRetries: 1, Concurrency: 4, Backoff: func(int) time.Duration {
				return time.Millisecond
			},
			Handler: func(context.Context, amqp.Delivery) error { return errors.New("no such product") },
		})
		eventually(t, "dead letters", func() bool { return queueDepth(t, queue+".dlq") == n })

		q := deadLetterQueue(t, queue)
		q.Records = c.Admin()
		letters := browsed(t, q, deadletter.Filter{Reason: "NO SUCH", Kind: deadletter.KindFailed})
		if len(letters) != n || letters[0].Record == nil || letters[0].Record.Failures != 2 {
			t.Fatalf("%d letters, the first: %+v", len(letters), letters[0])
		}
		if got := browsed(t, q, deadletter.Filter{Kind: deadletter.KindCrashed}); len(got) != 0 {
			t.Errorf("%d crashed", len(got))
		}
		r, err := q.Replay(t.Context(), deadletter.Replay{StopAfter: 3, Rate: 4})
		if !errors.Is(err, deadletter.ErrFailingAgain) || r.Done >= n || len(r.FailedAgain) < 3 || len(r.Undecided) > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		eventually(t, "all dead letters back", func() bool { return queueDepth(t, queue+".dlq") == n })
		again := 0
		for _, l := range browsed(t, q, deadletter.Filter{}) {
			if l.Replays == 1 && l.Record != nil && l.Record.Failures == 2 {
				again++
			}
		}
		if again != r.Done {
			t.Errorf("%d dead letters of a second generation with its record, want %d", again, r.Done)
		}
	})
}

// TestReasonOfACopy has another tool put a dead letter back, headers and all, where it dies again of something else.
func TestReasonOfACopy(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		c := counters(t)
		var reason atomic.Value
		start(t, consumer.Consumer{
			Queue: queue, Counter: c, MaxRetries: 1, Backoff: func(int) time.Duration { return time.Millisecond },
			Handler: func(context.Context, amqp.Delivery) error { return errors.New(reason.Load().(string)) },
		})
		reason.Store("reason 1")
		publish(t, queue, "m", 1)
		q := deadLetterQueue(t, queue)
		q.Records = c.Admin()
		for _, want := range []string{"reason 1", "reason 2", "reason 3"} {
			eventually(t, "the dead letter", func() bool { return queueDepth(t, q.Name) == 1 })
			if got := browsed(t, q, deadletter.Filter{}); got[0].Reason() != want || got[0].Record.Failures != 2 {
				t.Errorf("%q, %+v, want %q", got[0].Reason(), got[0].Record, want)
			}
			time.Sleep(3 * time.Second) // x-death has whole seconds
			reason.Store(fmt.Sprint("reason ", int(want[7]-'0')+1))
			d := getAll(t, q.Name)[0]
			publishAll(t, publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: d.MessageId, Headers: d.Headers}})
		}
	})
}

// TestDrop gives dead letters away, and keeps the others.
func TestDrop(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		q := withDeadLetters(t, queue, 100)
		var kept []string
		full := errors.New("the disk is full")
		keep := func(letters []*deadletter.Message) error {
			if len(kept) >= 64 {
				return full
			}
			kept = append(kept, idsOf(letters)...)
			return nil
		}
		r, err := q.Drop(t.Context(), deadletter.Filter{}, 0, keep)
		if !errors.Is(err, full) || r.Done != 64 {
			t.Fatalf("%+v, %v", r, err)
		}
		kept = nil
		r, err = q.Drop(t.Context(), deadletter.Filter{IDs: []string{"m70", "m90", "m5"}}, 0, keep)
		if err != nil || r.Done != 2 || !slices.Equal(kept, []string{"m70", "m90"}) {
			t.Fatalf("%+v, %v, %v", r, err, kept)
		}
		want := slices.DeleteFunc(numbered("m", 100)[64:], func(id string) bool { return id == "m70" || id == "m90" })
		if diff := cmp.Diff(want, ids(getAll(t, q.Name))); diff != "" {
			t.Error(diff)
		}
	})
}
