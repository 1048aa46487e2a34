package consumer

import "github.com/strikesmq/strikes/internal/fingerprint"

// logUnrecorded logs why a message without an id was dead-lettered: no record keeps its reason. strikes dead list shows
// the fingerprint in place of the id.
func (s *session) logUnrecorded(d *delivery) {
	if d.message.ID != "" {
		return
	}
	s.Logger.Warn("dead-lettered a message without an id: the store has no record of it", "queue", s.Queue,
		"fingerprint", fingerprint.Of(d.MessageId, d.CorrelationId, d.Type, d.Body), "cause", string(d.cause), "error", d.failure)
}
