package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/ops"
	"github.com/strikesmq/strikes/topology"
)

// TestAQueueWhoseNodeIsDown: a classic queue whose node is down exists, and takes no dead letter. A consumer holds dead
// letters that only such a queue takes until the node is back. No question about such a queue takes long.
func TestAQueueWhoseNodeIsDown(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	nodes := rabbitCluster(t)
	ctx, dials := t.Context(), [2]*amqp.Connection{}
	for i := range dials {
		var err error
		dials[i], err = amqp.Dial(nodes[i].URL)
		need(t, err)
		defer dials[i].Close()
	}
	up, down := dials[0], dials[1]
	need(t, topology.Declare(ctx, down, topology.Spec{Queue: "plain", Type: topology.Classic}))
	need(t, topology.Declare(ctx, down, topology.Spec{Queue: "parts", Type: topology.Classic, Partitions: 4}))
	classic := func(conn *amqp.Connection, queue string, args amqp.Table) {
		need(t, broker.OnChannel(ctx, conn, func(ch *amqp.Channel) error {
			return errOf(ch.QueueDeclare(queue, true, false, false, false, args))
		}))
	}
	classic(down, "dead", nil)
	classic(up, "source", amqp.Table{broker.ArgDeadLetterExchange: "", broker.ArgDeadLetterKey: "dead"})
	route := topology.Need{Queue: "source", HTTPClient: new(http.Client)}
	defer route.HTTPClient.CloseIdleConnections()
	need(t, topology.CheckRoute(ctx, up, route))
	classic(down, "work.dlq", nil)
	classic(up, "work", amqp.Table{broker.ArgDeadLetterExchange: "work.dlx"})
	need(t, broker.OnChannel(ctx, up, func(ch *amqp.Channel) error {
		return errors.Join(ch.ExchangeDeclare("work.dlx", "fanout", true, false, false, false, nil),
			ch.QueueBind("work.dlq", "", "work.dlx", false, nil))
	}))
	depth := func(queue string) amqp.Queue {
		_, q, err := broker.FindQueue(ctx, up, queue)
		need(t, broker.UnlessRefused(err))
		return q
	}
	const letters = 20
	var held atomic.Int64
	worker := consumer.Consumer{Queue: "work", Counter: counter.NewMemory(nil), Prefetch: letters,
		Check:   consumer.Check{Management: nodes[0].ManagementURL, HTTPClient: route.HTTPClient},
		Handler: func(context.Context, amqp.Delivery) error { return consumer.Reject(errPoison) },
		Observer: observer(func(e consumer.Event) {
			if e.Outcome == consumer.OutcomeHold {
				held.Add(1)
			}
		})}
	dial := consumer.Dialer(nodes[0].URL, amqp.Config{})
	stop := runConsumer(t, worker, dial)
	eventually(t, "a consumer", func() bool { return depth("work").Consumers == 1 })
	need(t, nodes[1].Kill())

	need(t, broker.OnChannel(ctx, up, func(ch *amqp.Channel) (err error) {
		for range letters {
			err = errors.Join(err, ch.PublishWithContext(ctx, "", "work", false, false, amqp.Publishing{DeliveryMode: 2}))
		}
		return err
	}))
	eventually(t, "dead letters held", func() bool { return held.Load() >= letters })
	if err := worker.Run(ctx, dial); !errors.As(err, new(*topology.RefusedError)) {
		t.Errorf("a new consumer: %v", err)
	}
	asked := time.Now()
	found, err := doctor.Examine(ctx, up, inspect.Need{Queue: "work", Closely: true, Management: nodes[0].ManagementURL,
		HTTPClient: route.HTTPClient})
	if err != nil || !slices.ContainsFunc(found, func(f inspect.Finding) bool { return f.Severe() && f.OfRoute() }) {
		t.Errorf("the doctor: %v, %v", found, err)
	}
	brief, cancel := context.WithTimeout(ctx, 4*time.Second)
	defer cancel()
	if _, _, err := broker.FindQueue(brief, up, "dead"); !broker.IsAway(err) {
		t.Errorf("a question with little time: %v", err)
	}
	if took := time.Since(asked); took > 9*time.Second { // the queue answers no question within 10 s
		t.Errorf("the doctor and a question took %v", took)
	}

	asked = time.Now()
	answers := map[string]broker.Answer{"plain": broker.Unknown, "plain.dlq": broker.Yes, "none": broker.No}
	for queue, want := range answers {
		if found, _, err := broker.FindQueue(ctx, up, queue); found != want || broker.UnlessRefused(err) != nil {
			t.Errorf("queue %s: %v, %v", queue, found, err)
		}
	}
	if n, err := broker.PartitionsOf(ctx, up, "parts"); n != 4 || err != nil {
		t.Errorf("%d partitions, %v", n, err)
	}
	refused := topology.Declare(ctx, up, topology.Spec{Queue: "plain", Partitions: 2})
	if refused == nil || !strings.Contains(refused.Error(), `"plain" exists as a queue, and its node is down`) {
		t.Errorf("partitions beside a plain queue: %v", refused)
	}
	for _, route.Management = range []string{"", nodes[0].ManagementURL} {
		if err := topology.CheckRoute(ctx, up, route); !errors.As(err, new(*topology.RefusedError)) {
			t.Errorf("a route to a queue whose node is down, management %q: %v", route.Management, err)
		}
		need := inspect.Need{Queue: "plain", Management: route.Management, HTTPClient: route.HTTPClient}
		found, err := inspect.Inspect(ctx, up, need)
		if err != nil || len(found) == 0 || !strings.Contains(found[0].Seen, "down") {
			t.Errorf("management %q: %v, %v", route.Management, found, err)
		}
	}
	if took := time.Since(asked); took > 2*time.Minute {
		t.Errorf("a dozen questions took %v", took)
	}
	asked = time.Now()
	all := ops.Collector{VHost: "/", Store: counter.NewMemory(nil).Admin(), Names: []string{"plain", "parts", "none"},
		Dial: func(context.Context) (*amqp.Connection, error) { return amqp.Dial(nodes[0].URL) }}
	defer all.Close()
	o, err := all.All(ctx)
	if err != nil || o.Broker != nil || len(o.Queues) != 3 {
		t.Fatalf("%+v, %v", o, err)
	}
	for _, q := range o.Queues {
		if q.Absent != (q.Queue == "none") || q.Ready != nil || q.Queue == "parts" && len(q.Partitions) != 4 {
			t.Errorf("in the overview: %+v", q)
		}
	}
	for _, queue := range []string{"parts", "source"} {
		if _, err := all.Collect(ctx, ops.Question{Queue: queue, DeadLetterQueue: "dead"}); err != nil {
			t.Errorf("the status of %s: %v", queue, err)
		}
	}
	if _, err := all.Collect(ctx, ops.Question{Queue: "plain"}); !broker.IsAway(err) {
		t.Errorf("the status of a queue whose node is down: %v", err)
	}
	if took := time.Since(asked); took > 40*time.Second {
		t.Errorf("four statuses took %v", took)
	}

	need(t, nodes[1].Start(context.WithoutCancel(ctx)))
	eventually(t, "all dead letters", func() bool { return depth("work.dlq").Messages == letters })
	stop()
}

// TestDoctorSeesAMinority sets the memory alarm of a node, and then kills two of three nodes. The last one stays up,
// as on RabbitMQ 4.3.
func TestDoctorSeesAMinority(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	nodes := rabbitCluster(t)
	last := nodes[0]
	conn, err := amqp.Dial(last.URL)
	need(t, err)
	defer conn.CloseDeadline(time.Now().Add(time.Second))
	need(t, topology.Declare(t.Context(), conn, topology.Spec{Queue: "orders"}))
	needed := inspect.Need{Queue: "orders", MaxRetries: 3, Management: last.ManagementURL, HTTPClient: new(http.Client)}
	defer needed.HTTPClient.CloseIdleConnections()
	sees := func(want string) {
		t.Helper()
		proctest.Within(t, time.Minute, func() error { return examinedAs(t.Context(), conn, needed, want) })
	}
	sees("")
	need(t, last.Ctl(t.Context(), "set_vm_memory_high_watermark", "0.0001"))
	sees("error broker-alarm")
	proof, err := doctor.Probe(t.Context(), conn, needed)
	if err != nil || len(proof.Findings) != 1 || !strings.Contains(proof.Findings[0].Seen, "the memory alarm is on") {
		t.Errorf("a probe while the broker blocks publishers: %v, %v", proof, err)
	}
	need(t, last.Ctl(t.Context(), "set_vm_memory_high_watermark", "0.6"))
	sees("")
	dead := deadletter.Queue{Name: "orders.dlq", Dial: consumer.Dialer(last.URL, amqp.Config{})}
	api := deadletter.Management{URL: last.ManagementURL}
	q, err := deadletter.Open(t.Context(), dead, api)
	need(t, err)
	need(t, nodes[2].Kill())
	sees("") // the queue works
	need(t, nodes[1].Kill())
	sees("error queue-node-down, warning dead-letter-queue-node-down")
	handler := func(context.Context, amqp.Delivery) error { return nil }
	err = (&consumer.Consumer{Queue: "orders", Counter: counter.NewMemory(nil), Handler: handler}).
		Consume(t.Context(), conn)
	if err == nil || errors.Is(err, consumer.ErrUndecodable) {
		t.Errorf("consuming without a majority: %v", err)
	}
	if _, err = deadletter.Open(t.Context(), dead, api); !errors.Is(err, broker.ErrAway) {
		t.Errorf("opening dead letters without a majority: %v", err)
	}
	for m, err := range q.Browse(t.Context(), deadletter.Filter{}) {
		if !errors.Is(err, deadletter.ErrUnanswered) || errors.Is(err, deadletter.ErrUndecodable) {
			t.Errorf("reading dead letters without a majority: %v, %v", m, err)
		}
	}
}

// examinedAs fails unless the doctor finds just that of alarms and nodes.
func examinedAs(ctx context.Context, conn *amqp.Connection, needed inspect.Need, want string) error {
	up := doctor.Checkup{Conn: conn, Need: needed, Named: true}
	found := doctor.Alarms(ctx, conn, needed)
	if err := up.Queues(ctx, []string{"orders"}, func(r doctor.Report) error {
		found = append(found, r.Findings...)
		return r.Err
	}); err != nil {
		return err
	}
	var codes []string
	for _, f := range found {
		if slices.Contains([]string{inspect.CodeAlarm, inspect.CodeNodeDown, inspect.CodeDeadLetterNodeDown}, f.Code) {
			codes = append(codes, f.Severity.String()+" "+f.Code)
		}
	}
	if got := strings.Join(codes, ", "); got != want {
		return fmt.Errorf("the doctor found %q (%+v), want %q", got, found, want)
	}
	return nil
}
