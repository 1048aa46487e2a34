package console

import (
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// TestAuditOfNoMessages: a change of no message shows no number of messages, and no reason where none was given.
func TestAuditOfNoMessages(t *testing.T) {
	f := newFixture(t, Options{})
	for _, e := range []counter.AuditEntry{
		{Time: time.Now(), Actor: "jo", Verb: "resume", Result: "done"},
		{Time: time.Now(), Actor: "jo", Verb: "replay", Reason: "the database is back", Result: "done", Count: 80},
	} {
		need(t, f.store.Audit(t.Context(), "/", "orders", e))
	}
	says(t, checkPage(t, f, query("audit")), `data-label="why">–<`, `data-label="messages">–<`,
		`data-label="messages">80<`, "the database is back")
}
