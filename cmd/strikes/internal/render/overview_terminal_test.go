//go:build unix

package render

import (
	"io"
	"strings"
	"testing"
	"time"

	"github.com/creack/pty"

	"github.com/strikesmq/strikes/ops"
)

// TestOverviewOf80Columns: a narrow terminal shows for how long a queue has been stopped without a record of a message,
// how many messages wait, and why.
func TestOverviewOf80Columns(t *testing.T) {
	const refused = "exit status 75: dial tcp 10.0.0.7:5432: connection refused"
	none, some := 0, 40
	o := ops.Overview{Time: noon, Queues: []ops.Summary{{
		Queue: "orders-of-the-shop", Ready: &some, Consumers: &none, Stopped: 12 * time.Minute,
		Dead:    ops.DeadLetters{Holds: &none},
		Waiting: &ops.WaitingMessages{Messages: 16, Since: earlierBy(12 * time.Minute), Why: refused},
		Breaker: &ops.Breaker{Since: earlierBy(12 * time.Minute), Open: true, Failed: 8, Alike: 8, Reason: refused},
	}}}
	ours, theirs, err := pty.Open()
	need(t, err)
	defer ours.Close()
	need(t, pty.Setsize(ours, &pty.Winsize{Rows: 24, Cols: 80}))
	need(t, Overview(theirs, o, 0))
	need(t, theirs.Close())
	shown, _ := io.ReadAll(ours) // ends with an error because the other end is closed
	_, row, _ := strings.Cut(strings.TrimSpace(string(shown)), "\n")
	got := strings.Join(strings.Fields(row), " ")
	if !strings.HasPrefix(got, "orders-of-the-sh… 12m 16 0 0 no progress: exit status 75…") {
		t.Errorf("%q", shown)
	}
}
