package integration

import (
	"fmt"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/topology"
)

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
