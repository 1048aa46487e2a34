package render

import (
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/records"
	"github.com/strikesmq/strikes/internal/status"
)

func TestUndecodableIsShown(t *testing.T) {
	u := &records.Undecodable{
		Sessions: 7, Since: earlierBy(time.Minute), Last: earlierBy(3 * time.Second),
		After: "m\x1b4", Holder: "host\x07, pid 7", Error: "consumer: a message cannot be decoded: queue \"orders\": its headers\x1b",
	}
	got := Status(status.Status{Time: noon, Queue: "orders", VHost: "/", Undecodable: u})
	var line string
	for _, r := range got {
		if strings.HasPrefix(r.Text, "undecoded") && r.Kind == term.Alarm {
			line = r.Text
		}
	}
	const want = `undecoded  a message that consumers cannot decode ended 7 sessions since 11:59:00Z, the last 3s ago, after message "m\x1b4"; strikes doctor says what to do`
	if line != want {
		t.Errorf("status: %q", line)
	}
	if rows := Status(status.Status{Time: noon}); strings.Contains(rows[1].Text, "undecoded") {
		t.Errorf("of nothing: %v", rows)
	}
}
