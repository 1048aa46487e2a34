package integration

import (
	"context"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
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
