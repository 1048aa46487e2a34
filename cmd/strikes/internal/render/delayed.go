package render

import (
	"fmt"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/ops"
)

// delayQueues shows the delay queues of the virtual host, and the messages that it could not return.
func delayQueues(all []ops.DelayQueue) (rows []term.Row) {
	var depths []string
	waiting, lost := 0, 0
	for _, q := range all {
		if q.Lost() {
			lost = q.Messages
			continue
		}
		waiting += q.Messages
		depths = append(depths, fmt.Sprintf("%s %d", strings.TrimPrefix(q.Queue, broker.DelayExchange+"."), q.Messages))
	}
	if len(depths) > 0 {
		text := fmt.Sprintf("delayed    %s of all queues: %s", printable.Plural(waiting, "message"),
			strings.Join(depths, ", "))
		rows = append(rows, term.Row{Text: text})
	}
	if lost > 0 {
		text := fmt.Sprintf("lost       %s: %s came back to a queue that was gone; see docs/operations.md",
			broker.DelayLost, printable.Plural(lost, "message"))
		rows = append(rows, term.Row{Text: text, Kind: term.Alarm})
	}
	return rows
}
