package integration

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// TestDoctorExaminesTheDelayQueues finds delay queues that are missing, were declared otherwise, or are changed by a
// policy.
func TestDoctorExaminesTheDelayQueues(t *testing.T) {
	t.Parallel() // most of it is waiting for the API
	b, management := topoDial(t, servertest.VirtualHost(t)), managementURL(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	checkup := doctor.Checkup{Conn: b.conn, Need: inspect.Need{Management: management, HTTPClient: client}}
	seen := func() (all []string) {
		report := checkup.Broker(t.Context())
		need(t, report.Err)
		for _, f := range report.Findings {
			if f.Code != "broker-unsupported" {
				all = append(all, f.Code+": "+f.Seen)
			}
		}
		return all
	}
	want := func(when string, all ...string) {
		t.Helper()
		if diff := cmp.Diff(all, seen()); diff != "" {
			t.Errorf("%s: %s", when, diff)
		}
	}
	want("no lane")
	spec := topology.Spec{Queue: b.name(), DelayQueues: true}
	b.declare(spec)
	want("declared")

	hour := broker.DelayQueues[2]
	remove := func() {
		b.must(func(ch *amqp.Channel) error { _, err := ch.QueueDelete(hour.Name, false, false, false); return err })
	}
	broken := "delay-queue-broken: the delay queues cannot be used: "
	remove()
	want("missing", broken+`queue "strikes.delay.1h" does not exist`)
	for argument, value := range map[string]any{broker.ArgTTL: int64(1), broker.ArgDeadLetterExchange: "elsewhere"} {
		args := hour.Arguments()
		args[argument] = value
		b.queue(hour.Name, args)
		want(argument, broken+`queue "strikes.delay.1h" has another `+argument)
		remove()
	}
	b.declare(spec)

	shortenDelayQueues(t, management, b.conn.Config.Vhost, 30*time.Minute)
	policy := "delay-queue-policy: a policy sets message-ttl 1800000 for "
	shortened := []string{policy + `"strikes.delay.1h", a delay queue`, policy +
		`"strikes.delay.6h", a delay queue`,
		policy + `"strikes.delay.24h", a delay queue`} // the others return messages sooner anyway
	proctest.Eventually(t, time.Minute, "the policy is found", func() bool { return slices.Equal(seen(), shortened) })
}
