// Package fingerprint names a message by its content, for messages that have no id.
package fingerprint

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
)

// Prefix begins a fingerprint.
const Prefix = "fp:"

// Of returns the fingerprint of a message with that MessageId, CorrelationId, Type and body, which dead-lettering does
// not change. Messages that are equal in these have the same one.
func Of(id, correlation, kind string, body []byte) string {
	head, _ := json.Marshal([]string{id, correlation, kind}) // of strings: it cannot fail
	sum := sha256.New()
	sum.Write(head)
	sum.Write(body)
	return Prefix + hex.EncodeToString(sum.Sum(nil)[:6])
}
