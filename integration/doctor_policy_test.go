package integration

import (
	"os/exec"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/inspect"
)

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
