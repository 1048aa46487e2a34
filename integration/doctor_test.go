package integration

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"os/exec"
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

// admitted is a patient with its queue.
type admitted struct {
	patient
	need inspect.Need
}

// admit sets all up, then waits until the API shows the policies of the last.
func admit(t *testing.T, b topo, patients []patient) []admitted {
	t.Helper()
	var all []admitted
	for _, p := range patients {
		q := b.name()
		p.set(b, q)
		needed := p.need
		needed.Queue, needed.Management = q, managementURL(t)
		if needed.MaxRetries == 0 {
			needed.MaxRetries = 3
		}
		all = append(all, admitted{p, needed})
	}
	return all
}

// examine returns severities and codes, sorted.
func (b topo) examine(needed inspect.Need) (codes string, findings []inspect.Finding) {
	b.t.Helper()
	findings, err := doctor.Examine(b.t.Context(), b.conn, needed)
	need(b.t, err)
	var all []string
	for _, f := range findings {
		all = append(all, f.Severity.String()+" "+f.Code)
	}
	slices.Sort(all)
	return strings.Join(all, ", "), findings
}

// settles polls until the findings are as wanted: policies and consumers show
// after up to 10 s, and later on a busy machine.
func (b topo) settles(p admitted) []inspect.Finding {
	b.t.Helper()
	var got string
	var findings []inspect.Finding
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(300 * time.Millisecond) {
		if got, findings = b.examine(p.need); got == p.want {
			return findings
		}
	}
	b.t.Errorf("%s: found %q, want %q", p.name, got, p.want)
	return findings
}

func TestDoctorFindsWhatIsWrong(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	for _, p := range admit(t, b, sick(b)) {
		b.settles(p)
	}
}

// A queue without defects must have no findings at every moment, also while the API does not show everything yet.
func TestDoctorRaisesNoFalseAlarm(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	all := admit(t, b, healthy(b))
	for begun := time.Now(); time.Since(begun) < 12*time.Second; time.Sleep(3 * time.Second) {
		for _, p := range all {
			if got, findings := b.examine(p.need); got != "" {
				t.Errorf("%s: %v", p.name, findings)
			}
		}
	}
}

// The commands that findings come with must fix the defects.
func TestDoctorCommandsMend(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed; it is what the commands run")
	}
	b := newTopo(t)
	var fixed []admitted
	for _, p := range admit(t, b, slices.Concat(lost(), limited(b), ended())) {
		if findings := b.settles(p); b.fix(findings) {
			p.want = ""
			fixed = append(fixed, p)
			b.t.Cleanup(func() { b.forgetPolicy("strikes." + p.need.Queue) })
		}
	}
	if len(fixed) < 8 {
		t.Errorf("only %d came with a command", len(fixed))
	}
	for _, p := range fixed {
		b.settles(p)
	}
}

// fix runs the commands of the findings, if all have one.
func (b topo) fix(findings []inspect.Finding) bool {
	b.t.Helper()
	for _, f := range findings {
		if len(f.Commands) == 0 {
			return false
		}
		cmd := exec.CommandContext(b.t.Context(), "sh", "-ec", strings.Join(f.Commands, "\n"))
		cmd.Env = append(os.Environ(), "RABBITMQ_PASSWORD=guest")
		if out, err := cmd.CombinedOutput(); err != nil {
			b.t.Errorf("%s: %s: %v\n%s", f.Code, f.Commands, err, out)
		}
	}
	return len(findings) > 0
}

// A dead-letter queue that is there is bound as it is: declaring it again as another would fail.
func TestDoctorBindsTheQueueThatIsThere(t *testing.T) {
	t.Parallel()
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed; it is what the commands run")
	}
	for _, kind := range []string{"", "fanout", "topic"} {
		b := newTopo(t)
		q := b.name()
		b.queue(q, classic(q))
		b.queue(q+".dlq", classic(q, argDLX, nil))
		if kind != "" {
			b.exchange(q+".dlx", kind)
		}
		_, findings := b.examine(inspect.Need{Queue: q, MaxRetries: 3, Management: managementURL(t)})
		if !b.fix(findings) {
			t.Fatalf("exchange of type %q: %v", kind, findings)
		}
		b.rejectsLand(q, "", q)
	}
}

func (b topo) forgetPolicy(name string) {
	b.t.Helper()
	path := "/api/policies/" + url.PathEscape(b.conn.Config.Vhost) + "/" + url.PathEscape(name)
	status, answer := managed(context.Background(), b.t, http.MethodDelete, path, "")
	if status >= http.StatusMultipleChoices && status != http.StatusNotFound {
		b.t.Errorf("DELETE %s: %d, %s", path, status, answer)
	}
}

// The command that raises a limit of a policy raises it on the broker, and keeps the other settings of the policy.
func TestDoctorMakesRoom(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	q := b.name()
	b.queue(q, quorum(q, argLimit, 5000))
	b.policy(q, map[string]any{"delivery-limit": 50, "message-ttl": 3600000})
	b.t.Cleanup(func() { b.forgetPolicy("strikes." + q) })
	needed := inspect.Need{Queue: q, MaxRetries: 1000, Management: managementURL(t)}
	room := func() []inspect.Finding {
		findings, err := doctor.DeliveryLimit(t.Context(), b.conn, needed)
		need(t, err)
		return findings
	}
	var narrow []inspect.Finding
	eventually(t, "the policy shows", func() bool {
		narrow = room()
		return len(narrow) == 1 && strings.Contains(narrow[0].Seen, "is 50, by policy") && strings.Contains(narrow[0].Seen,
			"allows 46 of 1000 retries")
	})
	if _, err := exec.LookPath("curl"); err != nil {
		t.Skip("curl is not installed; it is what the commands run")
	}
	if !b.fix(narrow) {
		t.Fatalf("no command: %v", narrow)
	}
	eventually(t, "there is room", func() bool { return len(room()) == 0 })
	if codes, findings := b.examine(needed); !strings.Contains(codes, "message-ttl") {
		t.Errorf("the rest of the policy is gone: %v", findings)
	}
}

// TestDoctorExaminesTheOthers: a queue that cannot be examined does not end the examination of those after it.
func TestDoctorExaminesTheOthers(t *testing.T) {
	t.Parallel()
	b := newTopo(t)
	first, last := b.name(), b.name()
	b.queue(first, nil)
	b.queue(last, nil)
	impossible := strings.Repeat("q", 256) // no queue has such a name
	checkup := doctor.Checkup{Conn: b.conn, Need: inspect.Need{Management: managementURL(t)}, Named: true}
	seen := map[string]doctor.Report{}
	err := checkup.Queues(t.Context(), []string{first, impossible, last}, func(r doctor.Report) error {
		seen[r.Name] = r
		return nil
	})
	if err != nil || seen[impossible].Err == nil {
		t.Fatalf("%v; %+v", err, seen)
	}
	for _, queue := range []string{first, last} {
		if r := seen[queue]; r.Err != nil || len(r.Findings) == 0 {
			t.Errorf("%s: %v, %d findings", queue, r.Err, len(r.Findings))
		}
	}
}

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

// The doctor calls a full dead-letter queue an error if dead letters are lost by it, and a warning if none is: a broker
// is made to fill each. A consumer that starts warns if some are lost.
func TestDoctorLimitedDeadLetterQueue(t *testing.T) {
	t.Parallel()
	sources := map[string]func(string, ...any) amqp.Table{
		"classic": classic,
		"quorum at most once": func(q string, more ...any) amqp.Table {
			return quorum(q, append(more, "x-dead-letter-strategy", nil)...)
		},
		"quorum at least once": quorum,
	}
	ends := map[string]amqp.Table{
		"quorum that refuses":         lettersTo("x-max-length", 5, "x-overflow", "reject-publish"),
		"quorum that drops":           lettersTo("x-max-length", 5),
		"quorum that refuses bytes":   lettersTo("x-max-length-bytes", 50, "x-overflow", "reject-publish"),
		"classic that refuses":        {"x-queue-type": "classic", "x-max-length": 5, "x-overflow": "reject-publish"},
		"classic that drops":          {"x-queue-type": "classic", "x-max-length": 5, "x-overflow": "drop-head"},
		"classic that refuses to DLX": {"x-queue-type": "classic", "x-max-length": 5, "x-overflow": "reject-publish-dlx"},
	}
	for source, args := range sources {
		for end, limited := range ends {
			t.Run(source+" to "+end, func(t *testing.T) {
				t.Parallel() // most of it is waiting for the API
				b := newTopo(t)
				q := b.name()
				b.exchange(q+".dlx", "fanout")
				b.queue(q+".dlq", limited)
				b.bind(q+".dlq", "", q+".dlx")
				b.queue(q, args(q))
				severity, needed := "", inspect.Need{Queue: q, MaxRetries: 3, Management: managementURL(t)}
				_, findings := b.examine(needed)
				for _, f := range findings {
					if f.Code == "dead-letter-queue-limited" {
						severity = f.Severity.String()
					}
				}
				warns := slices.Contains(b.codes(topology.Need{Queue: q, Management: needed.Management}),
					"warning dead-letter-queue-limited")
				if warns != (severity == "error") {
					t.Errorf("the start of a consumer warns: %v; the doctor says %q", warns, severity)
				}
				const sent = 20
				for i := range sent {
					b.publish("", q, fmt.Sprintf("message %02d", i))
					b.reject(q, false)
				}
				rest := 15 * time.Second // of dead letters that should all be kept, or that the API shows late
				if severity == "error" && source != "quorum at least once" {
					rest = 2 * time.Second
				}
				kept, steady := -1, time.Now()
				eventually(t, "the dead letters are at rest", func() bool {
					load, err := doctor.Measure(t.Context(), b.conn, needed)
					need(t, err)
					if now := b.depths(q)[1] + load.DeadLettering; now != kept {
						kept, steady = now, time.Now()
					}
					return kept == sent || kept < sent && time.Since(steady) > rest
				})
				if lost := kept < sent; lost != (severity == "error") || severity == "" {
					t.Errorf("%d of %d dead letters are kept, and the doctor says %q", kept, sent, severity)
				}
			})
		}
	}
}

// The settings of a policy are seen as soon as it is set, whatever the API still shows of the queue.
func TestDoctorReadsPolicies(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel() // most of it is waiting for the API
			b := newTopo(t)
			q := b.name()
			b.way(q, "fanout", "")
			b.queue(q, amqp.Table{"x-queue-type": kind})
			b.queue(q+".dlq", lettersTo())
			needed := inspect.Need{Queue: q, MaxRetries: 3, Management: managementURL(t)}
			api, err := needed.API()
			need(t, err)
			eventually(t, "the API shows that there is no policy", func() bool {
				shown, err := api.Queue(t.Context(), "/", q)
				return err == nil && shown.PolicyKnown
			})
			set := func(definition map[string]any) {
				topoAPI(t, "PUT", "policies/%2F/"+q, map[string]any{"pattern": "^" + q + "$", "apply-to": "queues",
					"definition": definition})
			}

			b.policy(q, map[string]any{"max-length": 5000, "overflow": "reject-publish"})
			codes, findings := b.examine(needed)
			if !strings.Contains(codes, "error no-dead-letter-exchange") {
				t.Fatalf("without a dead-letter exchange: %s", codes)
			}
			for _, f := range findings {
				if len(f.Commands) > 0 && !strings.Contains(strings.Join(f.Commands, ""), `"max-length":5000`) {
					t.Errorf("%s would drop what the policy says: %s", f.Code, f.Commands)
				}
			}
			if _, err := exec.LookPath("curl"); err == nil {
				b.t.Cleanup(func() { b.forgetPolicy("strikes." + q) })
				if !b.fix(fixable(findings)) {
					t.Fatalf("no command: %v", findings)
				}
				if codes, findings = b.examine(needed); strings.Contains(codes, "no-dead-letter-exchange") {
					t.Errorf("after the command: %v", findings)
				}
				eventually(t, "the queue applies the policy", func() bool { return b.deadLetters(q) })
				b.rejectsLand(q, "", q)
				b.forgetPolicy("strikes." + q)
			}
			set(map[string]any{"dead-letter-exchange": q + ".dlx"})
			if codes, findings = b.examine(needed); strings.Contains(codes, "no-dead-letter-exchange") {
				t.Errorf("with one by policy: %v", findings)
			}
			set(map[string]any{"expires": 3600000})
			if codes, findings = b.examine(needed); !strings.Contains(codes, "no-dead-letter-exchange") {
				t.Errorf("without it again: %v", findings)
			}
		})
	}
}

// deadLetters reports whether a message that is rejected now is dead-lettered. The process of a queue applies a policy
// later than the broker confirms it.
func (b topo) deadLetters(queue string) (landed bool) {
	b.publish("", queue, "probe")
	b.must(func(ch *amqp.Channel) error {
		d, _, err := ch.Get(queue, false)
		if err == nil {
			err = d.Nack(false, false)
		}
		for began := time.Now(); err == nil && !landed && time.Since(began) < time.Second; time.Sleep(10 * time.Millisecond) {
			_, landed, err = ch.Get(queue+".dlq", true)
		}
		return err
	})
	return landed
}

func fixable(all []inspect.Finding) []inspect.Finding {
	var out []inspect.Finding
	for _, f := range all {
		if len(f.Commands) > 0 {
			out = append(out, f)
		}
	}
	return out
}
