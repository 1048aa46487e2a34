package console

import (
	"errors"
	"os/exec"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/topology"
)

// TestOtherStores has an operator skip a message and replay dead letters, and examine the queues with the command, on
// each store that is a database. To run all tests on one: go test ./integration/console -store postgres
func TestOtherStores(t *testing.T) {
	for _, kind := range []string{"postgres", "mysql"} {
		t.Run(kind, func(t *testing.T) {
			t.Parallel()
			p := newPlantOn(t, kind)
			p.declare(topology.Spec{Queue: "orders", SingleActiveConsumer: true},
				topology.Spec{Queue: "payments", Type: topology.Classic})
			p.kill("payments", payments(12)...)
			p.block("orders", 5)
			s, b := p.serve(nil), newTab(t)

			b.visit(s.url)
			b.sees("1 of 2 queues blocked, 12 dead letters")
			b.open("orders", "PUT https://warehouse.example/reservations/7301: 409 Conflict")
			b.choose("Skip order-7301", "pallet 12 stays locked")
			b.gone("blocked for")
			b.sees("1 dead letter")
			p.consume(consumer.Consumer{Queue: "payments", Handler: well})
			b.open("payments", "12 dead letters")
			b.followText("POST <address>: 503 Service Unavailable (request <id>)")
			b.followText("Replay dead letters")
			b.fill("#why", "the bank is up again")
			b.follow("main form.sheet button")
			b.sees("6 of 6")
			b.visit(s.at("audit", "queue", "orders"))
			b.sees("pallet 12 stays locked")

			doctor := func(want string) {
				t.Helper()
				out, err := p.command("doctor", "orders", "payments").CombinedOutput()
				var exit *exec.ExitError
				if !strings.Contains(string(out), want) || err != nil && !errors.As(err, &exit) {
					t.Errorf("%v, want %q in:\n%s", err, want, out)
				}
			}
			p.storeURL = through(p.storeURL, p.store)
			if kind == "postgres" { // the MariaDB of tests does not sync anyway
				p.storeURL += "&synchronous_commit=off"
			}
			doctor("crash of the server loses the counts of its last moments")
			p.store.Close()
			doctor("unreachable")
		})
	}
}
