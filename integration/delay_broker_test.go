package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/http"
	"net/url"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// More: go test ./integration -run TestDelayBrokerKilled -delay.broker.messages 5000 -delay.broker.kills 10 -timeout
// 30m
var (
	delayBrokerMessages = flag.Int("delay.broker.messages", 300, "messages of TestDelayBrokerKilled for each kill")
	delayBrokerKills    = flag.Int("delay.broker.kills", 1, "kills of the broker in TestDelayBrokerKilled")
)

// shortenDelayQueues gives the delay queues a shorter TTL by policy. Their arguments stay as a consumer wants them. A
// delay queue that is declared later has it from its beginning.
func shortenDelayQueues(t *testing.T, management, vhost string, ttl time.Duration) {
	t.Helper()
	body := fmt.Sprintf(`{"pattern":"^strikes\\.delay\\.[0-9]","definition":{"message-ttl":%d},"apply-to":"queues"}`,
		ttl.Milliseconds())
	servertest.Administer(t, http.MethodPut, management+"/api/policies/"+url.PathEscape(vhost)+
		"/strikes-delay-short", body)
}

// TestADelayQueueThatDoesNotAnswer: while the process of a delay queue is suspended, a consumer begins.
func TestADelayQueueThatDoesNotAnswer(t *testing.T) {
	t.Parallel()
	node := privateBroker(t, servers.RabbitMQOptions{})
	dial := consumer.Dialer(node.URL, amqp.Config{})
	conn, err := dial(t.Context())
	need(t, err)
	defer conn.Close()
	need(t, topology.Declare(t.Context(), conn, topology.Spec{Queue: "orders", Type: topology.Classic, DelayQueues: true}))
	const silent = "strikes.delay.10m" // a classic one, because a quorum queue whose process is suspended answers
	need(t, broker.OnChannel(t.Context(), conn, func(ch *amqp.Channel) error {
		_, deleted := ch.QueueDelete(silent, false, false, false)
		_, err := ch.QueueDeclare(silent, true, false, false, false, nil)
		return errors.Join(deleted, err)
	}))
	eval := func(call string) {
		t.Helper()
		need(t, node.Ctl(t.Context(), "eval", fmt.Sprintf("{ok, Q} = rabbit_amqqueue:lookup(rabbit_misc:r(<<\"/\">>, "+
			"queue, <<%q>>)), ok = sys:%s(amqqueue:get_pid(Q)).", silent, call)))
	}
	eval("suspend")
	defer eval("resume") // else the questions go on
	asking, cancel := context.WithTimeout(t.Context(), 25*time.Second)
	defer cancel()
	found, wrong, unread, err := broker.DelayQueuesOf(asking, conn)
	if err != nil || found != broker.Yes || len(wrong) > 0 || len(unread) != 1 {
		t.Errorf("found: %v; wrong: %q; unread: %q; %v", found, wrong, unread, err)
	}
	ready := make(chan bool, 2)
	began := time.Now()
	runConsumer(t, consumer.Consumer{Queue: "orders", Counter: counter.NewMemory(&counter.Options{TTL: 100 * time.Hour}),
		Handler: func(context.Context, amqp.Delivery) error { return nil }, Consuming: func(yes bool) { ready <- yes }}, dial)
	select {
	case <-ready:
		t.Logf("it consumes after %v", time.Since(began))
	case <-time.After(25 * time.Second):
		t.Error("the consumer does not begin")
	}
}

// TestDelayBrokerKilled kills the broker while messages are in the delay queues and others are moved there. While it
// is down, all become due.
func TestDelayBrokerKilled(t *testing.T) {
	servertest.Long(t)
	t.Parallel() // most of it is waiting
	rabbit := privateBroker(t, servers.RabbitMQOptions{Management: true})
	dial := consumer.Dialer(rabbit.URL, amqp.Config{})
	conn, err := dial(t.Context())
	need(t, err)
	need(t, topology.Declare(t.Context(), conn, topology.Spec{Queue: "orders", DelayQueues: true}))
	_ = conn.Close()
	shortenDelayQueues(t, rabbit.ManagementURL, "/", 4*time.Second)
	// A node that is killed within moments of a quorum queue's declaration may forget its log: see
	// TestBrokerKilledInTheMiddle.
	need(t, errors.Join(rabbit.Stop(t.Context()), rabbit.Start(t.Context())))
	due := map[string]bool{}
	v := newVisits(func(id string, _ int) error {
		if !due[id] {
			return consumer.RetryAfter(errors.New("not yet"), time.Hour)
		}
		return nil
	})
	store := counter.NewMemory(nil)
	moves := func() int {
		v.mu.Lock()
		defer v.mu.Unlock()
		return v.outcomes[consumer.OutcomeMove]
	}
	makeDue := func(ids []string) {
		v.mu.Lock()
		for _, id := range ids {
			due[id] = true
		}
		v.mu.Unlock()
		endWaits(t, store, ids)
	}
	c := consumer.Consumer{Queue: "orders", Counter: store, Observer: v, Handler: v.handle, DelayAbove: time.Minute,
		MaxRetries: 3, Concurrency: 4, Prefetch: 40}
	stop := runConsumer(t, c, dial)
	var ids []string
	held := 0
	for kill := range *delayBrokerKills {
		fresh := make([]string, *delayBrokerMessages)
		for n := range fresh {
			fresh[n] = fmt.Sprintf("m%d-%d", kill, n)
		}
		ids = append(ids, fresh...)
		before := moves()
		publishIDs(t, dial, "orders", fresh)
		eventually(t, "half of them moved", func() bool { return moves()-before >= len(fresh)/2 })
		held += depthOf(dial, "strikes.delay.1h")
		need(t, rabbit.Kill())
		makeDue(fresh)
		need(t, rabbit.Start(t.Context()))
		proctest.Eventually(t, 2*time.Minute, "each message finished", func() bool {
			makeDue(fresh) // a failure may have been counted after the kill
			v.mu.Lock()
			defer v.mu.Unlock()
			return len(v.succeeded) == len(ids)
		})
	}
	eventually(t, "the queues are empty", func() bool {
		return depthOf(dial, "orders") == 0 && depthOf(dial, "strikes.delay.1h") == 0
	})
	stop()
	lost, twice, most := 0, 0, 0
	for _, id := range ids {
		lost += btoi(v.succeeded[id] == 0)
		twice += btoi(v.succeeded[id] > 1)
		most = max(most, v.attempts[id])
	}
	dead := depthOf(dial, "orders.dlq") + depthOf(dial, broker.DelayLost)
	t.Logf("%d messages, %d kills of the broker with %d in a delay queue: %d lost, %d handled twice, %d dead-lettered, "+
		"%d attempts at most",
		len(ids), *delayBrokerKills, held, lost, twice, dead, most)
	if lost+twice+dead > 0 || most > c.MaxRetries+1 || held == 0 {
		t.Fail()
	}
}

// endWaits ends the waits of messages.
func endWaits(t *testing.T, store *counter.Memory, ids []string) {
	t.Helper()
	for _, id := range ids {
		records, err := store.Get(t.Context(), "/", "orders", id)
		need(t, err)
		for _, r := range records {
			if r.State != counter.StateLive || r.OpenToken != "" || r.Left(time.Now()) == 0 {
				continue
			}
			need(t, store.Reset(t.Context(), r.Message, counter.Note{By: "test", Why: "it is due now"}))
		}
	}
}

func publishIDs(t *testing.T, dial func(context.Context) (*amqp.Connection, error), queue string, ids []string) {
	t.Helper()
	msgs := make([]publisher.Message, len(ids))
	for i, id := range ids {
		msgs[i] = publisher.Message{Key: queue, Publishing: amqp.Publishing{MessageId: id, Body: []byte(id)}}
	}
	publishVia(t, dial, msgs)
}

// depthOf is -1 if the broker does not say.
func depthOf(dial func(context.Context) (*amqp.Connection, error), queue string) int {
	state, err := queueState(dial, queue)
	if err != nil {
		return -1
	}
	return state.Messages
}
