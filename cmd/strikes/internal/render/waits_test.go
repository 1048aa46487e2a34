package render

import (
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/ops"
)

// TestReasonOfWaitsIsToldOnce: in an outage all processes have the same one.
func TestReasonOfWaitsIsToldOnce(t *testing.T) {
	out := term.Joined(Status(ops.Status{Time: noon, Queue: "orders", Waiting: []ops.WaitingMessages{
		{Messages: 3, Since: earlierBy(4 * time.Minute), Why: "the database is away", Consumer: "web-1"},
		{Messages: 2, Since: noon, Why: "the database is away", Consumer: "web-2"},
	}}), false)
	want := "\nwaiting    5 messages for 4m in 2 processes: their attempts are not counted\n" +
		"      the database is away\ndead "
	if !strings.Contains(out, want) {
		t.Errorf("%s\nwants %s", out, want)
	}
}
