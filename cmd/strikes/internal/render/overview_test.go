package render

import (
	"bytes"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/ops"
)

// TestAlarms: the list of all queues ends with the refusals of the broker and the store, each in one line.
func TestAlarms(t *testing.T) {
	o := ops.Overview{Queues: []ops.Summary{{Queue: "q"}}, Alarms: []inspect.Finding{{
		Code: "store-few-replicas", Seen: "the store h:1 has 0 of\nthe 1 replicas", Impact: "it refuses writes",
	}}}
	var out bytes.Buffer
	need(t, Overview(&out, o, 0))
	if lines := strings.Split(strings.TrimSpace(out.String()), "\n"); len(lines) != 3 ||
		!strings.HasPrefix(lines[2], "store-few-replicas: the store h:1 has 0 of") || !strings.HasSuffix(lines[2],
		"; it refuses writes") {
		t.Errorf("%q", lines)
	}
}
