package render

import (
	"bytes"
	"slices"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/ops"
)

// TestDelay: a status shows the depth of each delay queue, and warns of messages that could not return.
func TestDelay(t *testing.T) {
	lane := []ops.DelayQueue{{Queue: "strikes.delay.1m", Messages: 3}, {Queue: "strikes.delay.24h", Messages: 1},
		{Queue: "strikes.delay.lost"}}
	lost := []ops.DelayQueue{{Queue: "strikes.delay.lost", Messages: 2}}
	const depths = "delayed    4 messages of all queues: 1m 3, 24h 1"
	const warned = "lost       strikes.delay.lost: 2 messages came back to a queue that was gone; see docs/operations.md"
	for _, tc := range []struct {
		seen []ops.DelayQueue
		want []term.Row
	}{
		{nil, nil},
		{lane, []term.Row{{Text: depths}}},
		{append(lane[:2:2], lost...), []term.Row{{Text: depths}, {Text: warned, Kind: term.Alarm}}},
		{lost, []term.Row{{Text: warned, Kind: term.Alarm}}},
	} {
		var p page
		if p.delayQueues(tc.seen); !slices.Equal(tc.want, p) {
			t.Errorf("%v: %+v", tc.seen, p)
		}
		var out bytes.Buffer
		if err := Overview(&out, ops.Overview{Queues: []ops.Summary{{Queue: "q"}, {Queue: "r"}}, DelayQueues: tc.seen},
			1); err != nil {
			t.Fatal(err)
		}
		end := "and 1 more\nconsumers and ready messages are up to 10 s old; strikes status QUEUE reads them now\n"
		for _, row := range tc.want {
			end += row.Text + "\n"
		}
		if !strings.HasSuffix(out.String(), end) {
			t.Errorf("all queues: %q does not end with %q", out.String(), end)
		}
	}
}
