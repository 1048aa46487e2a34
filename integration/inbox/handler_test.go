package inbox

import (
	"testing"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/plugin/pgstrikes"
	"github.com/strikesmq/strikes/plugin/sqlstrikes"
)

// TestNoWork: a consumer refuses a Handler without work before it takes a message.
func TestNoWork(t *testing.T) {
	for name, handler := range map[string]consumer.Handler{
		"pgstrikes":  (&pgstrikes.Inbox{Queue: queue}).Handler(nil),
		"sqlstrikes": (&sqlstrikes.Inbox{Queue: queue}).Handler(nil),
	} {
		t.Run(name, func(t *testing.T) {
			got, err := deliver(t.Context(), patience, handler, message("17"), nil)
			says(t, err, "Handler")
			if got != "" {
				t.Errorf("the message has the outcomes %s", got)
			}
		})
	}
}
