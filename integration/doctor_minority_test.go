package integration

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"
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
	"github.com/strikesmq/strikes/topology"
)

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
