package integration

import (
	"fmt"
	"net/http"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// TestDoctorExaminesTheDelayQueues declares the delay queues, and finds those that are missing, were declared
// otherwise, or are changed by a policy.
func TestDoctorExaminesTheDelayQueues(t *testing.T) {
	t.Parallel() // most of it is waiting for the API
	b, management := topoDial(t, servertest.VirtualHost(t)), managementURL(t)
	checkup := doctor.Checkup{Conn: b.conn, Need: inspect.Need{Management: management}}
	seen := func() (all []string) {
		report := checkup.Broker(t.Context())
		need(t, report.Err)
		for _, f := range report.Findings {
			all = append(all, f.Code+": "+f.Seen)
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
	b.declare(spec) // again: nothing changes
	want("declared")
	checkup.Need.Management = "http://127.0.0.1:1"
	if all := seen(); len(all) != 1 || !strings.HasPrefix(all[0], "alarms-unknown: ") {
		t.Errorf("the API that does not answer is named once: %q", all)
	}
	checkup.Need.Management = management

	hour := broker.DelayQueues[2]
	broken := "delay-queue-broken: the delay queues cannot be used: "
	b.remove(hour.Name)
	want("missing", broken+`queue "strikes.delay.1h" does not exist`)
	for _, pairs := range [][]any{
		{broker.ArgTTL, int64(1)},
		{broker.ArgDeadLetterExchange, "elsewhere"},
		{broker.ArgDeadLetterExchange, nil, broker.ArgStrategy, nil},
	} {
		argument := fmt.Sprint(pairs[0])
		b.queue(hour.Name, changed(hour.Arguments(), pairs...))
		want(argument, broken+`queue "strikes.delay.1h" has another `+argument)
		if err := topology.Declare(t.Context(), b.conn, spec); err == nil || !strings.Contains(err.Error(), argument+" ") {
			t.Errorf("declare over another %s: %v", argument, err)
		}
		b.remove(hour.Name)
	}
	b.declare(spec)
	b.must(func(ch *amqp.Channel) error { return ch.ExchangeDelete(hour.Name, false, false) })
	want("an exchange is missing", broken+`exchange "strikes.delay.1h" does not exist`)
	b.declare(spec)

	shortenDelayQueues(t, management, b.conn.Config.Vhost, 30*time.Minute)
	policy := "delay-queue-policy: a policy sets message-ttl 1800000 for "
	shortened := []string{policy + `"strikes.delay.1h", a delay queue`, policy +
		`"strikes.delay.6h", a delay queue`,
		policy + `"strikes.delay.24h", a delay queue`} // the others return messages sooner anyway
	eventually(t, "the policy is found", func() bool { return slices.Equal(seen(), shortened) })
}

// meeting holds the first question about each of two subjects until the other is asked about.
type meeting struct {
	alarms, delay chan struct{}
	once          [2]sync.Once
	through       http.RoundTripper
}

func (m *meeting) RoundTrip(r *http.Request) (*http.Response, error) {
	mine, other, once := m.alarms, m.delay, &m.once[0]
	switch path := r.URL.Path; {
	case strings.Contains(path, "/queues/") && strings.Contains(path, broker.DelayExchange+"."):
		mine, other, once = m.delay, m.alarms, &m.once[1]
	case !strings.HasSuffix(path, "/alarms"):
		return m.through.RoundTrip(r)
	}
	once.Do(func() { close(mine) })
	select {
	case <-other:
	case <-r.Context().Done(): // the doctor does not wait longer
		return nil, r.Context().Err()
	}
	return m.through.RoundTrip(r)
}

// TestDoctorAsksAboutTheBrokerSideBySide: an API that hangs takes its whole time from each part of the examination.
func TestDoctorAsksAboutTheBrokerSideBySide(t *testing.T) {
	t.Parallel()
	b := topoDial(t, servertest.VirtualHost(t))
	b.declare(topology.Spec{Queue: b.name(), DelayQueues: true})
	client := &http.Client{Transport: &meeting{alarms: make(chan struct{}), delay: make(chan struct{}),
		through: &http.Transport{DisableKeepAlives: true}}}
	checkup := doctor.Checkup{Conn: b.conn, Need: inspect.Need{Management: managementURL(t), HTTPClient: client}}
	report := checkup.Broker(t.Context())
	need(t, report.Err)
	if len(report.Findings) > 0 {
		t.Errorf("%+v", report.Findings)
	}
}
