package integration

import (
	"net/http"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/queueinfo"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// TestDoctorExaminesTheLaterLane finds buckets that are missing, were declared otherwise, or are changed by a policy.
func TestDoctorExaminesTheLaterLane(t *testing.T) {
	t.Parallel() // most of it is waiting for the API
	b, management := topoDial(t, servertest.VirtualHost(t)), managementURL(t)
	client := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}, Timeout: 10 * time.Second}
	checkup := doctor.Checkup{Conn: b.conn, Need: inspect.Need{Management: management, HTTPClient: client}}
	seen := func() (all []string) {
		report, err := checkup.Broker(t.Context())
		if err != nil {
			t.Fatal(err)
		}
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
	spec := topology.Spec{Queue: b.name(), Later: true}
	b.declare(spec)
	want("declared")

	hour := queueinfo.Buckets[2]
	remove := func() {
		b.must(func(ch *amqp.Channel) error { _, err := ch.QueueDelete(hour.Name, false, false, false); return err })
	}
	broken := "later-lane-broken: the later lane cannot be used: "
	remove()
	want("missing", broken+`queue "strikes.later.1h" does not exist`)
	for argument, value := range map[string]any{queueinfo.ArgTTL: int64(1), queueinfo.ArgDeadLetterExchange: "elsewhere"} {
		args := hour.Arguments()
		args[argument] = value
		b.queue(hour.Name, args)
		want(argument, broken+`queue "strikes.later.1h" has another `+argument)
		remove()
	}
	b.declare(spec)

	shortenBuckets(t, management, b.conn.Config.Vhost, 30*time.Minute)
	policy := "later-lane-policy: a policy sets message-ttl 1800000 for "
	shortened := []string{policy + `"strikes.later.1h", a queue of the later lane`, policy +
		`"strikes.later.6h", a queue of the later lane`,
		policy + `"strikes.later.24h", a queue of the later lane`} // the others return messages sooner anyway
	proctest.Eventually(t, time.Minute, "the policy is found", func() bool { return slices.Equal(seen(), shortened) })
}
