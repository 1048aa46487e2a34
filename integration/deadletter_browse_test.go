package integration

import (
	"errors"
	"fmt"
	"net/http"
	"runtime"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// TestOpen finds the actions that are safe on a queue, with the management API and without, and heeds a policy that
// can be seen.
func TestOpen(t *testing.T) {
	t.Parallel()
	old := brokerVersion(t).Before(4, 0)
	for _, tc := range []struct {
		name       string
		args       amqp.Table
		policy     string
		api        bool
		take, hold bool
	}{
		{"classic", nil, "", false, true, true},
		{"quorum, and a policy may apply", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 2000}, "", false, !old,
			false},
		{"quorum", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}, "", true, true, true},
		{"quorum without a limit", amqp.Table{"x-queue-type": "quorum"}, "", true, true, false},
		{"quorum with a policy", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 2000}, `{"delivery-limit":3}`, true,
			false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			queue := uniqueName(t, "open")
			deleteLater(t, queue)
			if tc.policy != "" {
				manage(t, http.MethodPut, "/api/policies/%2F/"+queue, `{"pattern":"^`+queue+`$","apply-to":"queues","definition":`+
					tc.policy+`}`)
				t.Cleanup(func() { manage(t, http.MethodDelete, "/api/policies/%2F/"+queue, "") })
			}
			need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
				return errOf(ch.QueueDeclare(queue, true, false, false, false, tc.args))
			}))
			api := deadletter.Management{}
			if tc.api {
				api.URL = managementURL(t)
			}
			q, err := deadletter.Open(t.Context(), deadletter.Queue{Name: queue, Dial: dialer(t)}, api)
			need(t, err)
			if h := q.Handling; h.Take != tc.take || h.Hold != tc.hold || (h.Why == "") != tc.hold {
				t.Errorf("%+v, want Take %v, Hold %v", h, tc.take, tc.hold)
			}
		})
	}
	none := deadletter.Queue{Name: uniqueName(t, "none"), Dial: dialer(t)}
	if _, err := deadletter.Open(t.Context(), none, deadletter.Management{}); !errors.Is(err,
		deadletter.ErrQueueNotFound) {
		t.Errorf("%v", err)
	}
}

// TestBrowseEndsEarly reads parts of a queue, short and long ones in turn, and all of it in between. The right part
// must come, and the queue must stay in its order. A quorum queue puts returned messages behind those that were
// returned before.
func TestBrowseEndsEarly(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		const n = 400
		q := withDeadLetters(t, queue, n)
		all := numbered("m", n)
		byID := deadletter.Filter{IDs: []string{"m3", "m250"}}
		for i, tc := range []struct {
			f              deadletter.Filter
			end            int // messages after which the iteration ends
			mostRead, most int // messages, and bytes of their bodies
			want           []string
		}{
			{deadletter.Filter{}, 5, 0, 0, all[:5]},
			{deadletter.Filter{}, 3, 0, 0, all[:3]},
			{deadletter.Filter{}, 5, 0, 0, all[:5]},
			{deadletter.Filter{}, n, 30, 0, all[:30]},
			{deadletter.Filter{}, n, 0, len(strings.Join(all[:7], "")), all[:7]},
			{byID, n, 0, len(strings.Join(all[:230], "")), all[3:4]},
			{byID, 2, 100, 0, all[3:4]},
			{byID, n, n, 0, []string{"m3", "m250"}},
			{deadletter.Filter{}, 2, 0, 0, all[:2]},
			{deadletter.Filter{Kind: deadletter.KindNoRecord}, 1, 0, 0, all[:1]},
			{deadletter.Filter{}, n + 1, 0, 0, all},
		} {
			q.MostRead, q.MostBytes = tc.mostRead, tc.most
			var got []string
			for l, err := range q.Browse(t.Context(), tc.f) {
				need(t, err)
				if got = append(got, l.ID); len(got) == tc.end {
					break
				}
			}
			if !slices.Equal(got, tc.want) {
				t.Errorf("%d, %+v: %v, want %v", i, tc, got, tc.want)
			}
		}
		if diff := cmp.Diff(all, ids(getAll(t, q.Name))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestShortBrowse reads a part of a long queue over and over, which must not cost more and more.
func TestShortBrowse(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		n := max(*killLetters, 3000)
		makeDeadLetters(t, queue, numbered("m", n))
		q := deadLetterQueue(t, queue)
		for _, tc := range []struct {
			what string
			f    deadletter.Filter
			end  int // messages after which the iteration ends
			read int // MostRead
			most int // messages to be read
		}{
			{"the first 5", deadletter.Filter{}, 5, 0, 50},
			{"one that is near", deadletter.Filter{IDs: []string{"m17"}}, 1, 0, 100},
			{"one in the first 1000", deadletter.Filter{IDs: []string{fmt.Sprint("m", n-1)}}, 1, 1000, 1200},
		} {
			for range 10 {
				read, found, began := 0, 0, time.Now()
				q.MostRead, q.Progress = tc.read, func(p deadletter.Progress) { read++ }
				for _, err := range q.Browse(t.Context(), tc.f) {
					need(t, err)
					if found++; found == tc.end {
						break
					}
				}
				t.Logf("%s of %d: %v, %d read", tc.what, n, time.Since(began).Round(time.Millisecond), read)
				if read > tc.most {
					t.Errorf("%s of %d: %d were read, want %d at most", tc.what, n, read, tc.most)
				}
			}
		}
	})
}

// TestBrowseOfASlowBroker: a part returns to its position also if the messages behind it come late.
func TestBrowseOfASlowBroker(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	queue := declared(t, topology.Quorum)
	const n = 100
	q := withDeadLetters(t, queue, n)
	browsed(t, q, deadletter.Filter{}) // so all were returned before
	slow, url := proxied(t, brokerURL(t))
	q.Dial = consumer.Dialer(url, amqp.Config{})
	slow.Delay(400 * time.Millisecond)
	for _, err := range q.Browse(t.Context(), deadletter.Filter{}) {
		need(t, err)
		break
	}
	if diff := cmp.Diff(numbered("m", n), ids(getAll(t, q.Name))); diff != "" {
		t.Error(diff)
	}
}

// TestBrowseChangesNothing looks at a queue many times. Its messages and their order must stay.
func TestBrowseChangesNothing(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		const n = 300
		q := withDeadLetters(t, queue, n)
		q.Preview = 2
		for range 25 { // a default delivery limit of RabbitMQ 4 is 20
			got := browsed(t, q, deadletter.Filter{})
			if diff := cmp.Diff(numbered("m", n), idsOf(got)); diff != "" {
				t.Fatal(diff)
			}
			if l := got[7]; l.Origin.Queue != queue || l.Origin.Reason != "rejected" || l.Kind() != deadletter.KindNoRecord ||
				len(l.Publishing.Body) > 2 {
				t.Errorf("%+v", l)
			}
		}
		if got := browsed(t, q, deadletter.Filter{IDs: []string{"m9", "m7"}}); !slices.Equal(idsOf(got), []string{"m7",
			"m9"}) {
			t.Errorf("%v", idsOf(got))
		}
		if diff := cmp.Diff(numbered("m", n), ids(getAll(t, queue+".dlq"))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestBrowseTakesConstantMemory looks at many large dead letters. It runs alone, because it measures the memory of the
// process.
func TestBrowseTakesConstantMemory(t *testing.T) {
	servertest.Long(t)
	queue := declared(t, topology.Quorum)
	q := deadLetterQueue(t, queue)
	const n, size = 2500, 64 << 10
	msgs := make([]publisher.Message, n)
	body := []byte(strings.Repeat("x", size))
	for i := range msgs {
		msgs[i] = publisher.Message{Key: q.Name, Publishing: amqp.Publishing{MessageId: fmt.Sprint("m", i), Body: body}}
	}
	publishAll(t, msgs...)
	runtime.GC() // the garbage of other tests
	var most uint64
	q.Progress = func(p deadletter.Progress) {
		if p.Done%100 == 0 {
			var m runtime.MemStats
			runtime.ReadMemStats(&m)
			most = max(most, m.HeapAlloc)
		}
	}
	for range 2 {
		if diff := cmp.Diff(numbered("m", n), idsOf(browsed(t, q, deadletter.Filter{}))); diff != "" {
			t.Fatal(diff)
		}
	}
	if most > n*size/2 {
		t.Errorf("%d MB in use for %d MB of bodies", most>>20, n*size>>20)
	}
	eventually(t, "the return of all to the dead-letter queue", func() bool {
		return queueDepth(t, q.Name) == n
	})
}

// TestUnsafeQueueIsNotTouched has a queue that may not be looked at.
func TestUnsafeQueueIsNotTouched(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		q := withDeadLetters(t, queue, 2)
		q.Handling = deadletter.Handling{Take: true, Why: "every read counts"}
		for _, err := range q.Browse(t.Context(), deadletter.Filter{}) {
			if !errors.Is(err, deadletter.ErrUnsafe) {
				t.Errorf("browse: %v", err)
			}
		}
		if _, err := q.Replay(t.Context(), deadletter.Replay{Filter: deadletter.Filter{IDs: []string{"m1"}}}); !errors.Is(err,
			deadletter.ErrUnsafe) {
			t.Errorf("pick: %v", err)
		}
		for _, d := range getAll(t, q.Name) {
			if d.Redelivered && brokerVersion(t).Major != 4 {
				t.Errorf("%s was touched", d.MessageId)
			}
		}
	})
}
