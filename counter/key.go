package counter

import (
	"crypto/sha256"
	"encoding/hex"
	"net/url"
	"strings"
)

// recordKey is the key of a message's record in the queue whose keys begin with q.
func recordKey(q string, m Message) string { return q + "r:" + member(m.ID, m.Generation) }

// controlKeys are the keys of a queue that scripts/control.lua describes.
func (o Options) controlKeys(vhost, queue string) []string {
	q := o.queueKey(vhost, queue)
	return []string{q + docPause, q + setConsumers, q + setSkips}
}

// queueKey begins every key of a queue. Both names are encoded, so that no slash or brace in one makes two queues equal
// or chooses another slot.
func (o Options) queueKey(vhost, queue string) string {
	return o.Prefix + ":{" + encode(vhost) + "/" + encode(queue) + "}:"
}

// member is a record's name in the index. The id is hashed, so that a publisher chooses neither the length of a key nor
// the key of another message.
func member(id, generation string) string { return hashID(id) + ":" + GenerationHash(generation) }

func hashID(id string) string {
	sum := sha256.Sum256([]byte(id))
	return hex.EncodeToString(sum[:16])
}

// GenerationHash is the short form of a generation in the key of its record: 16 hexadecimal digits, or "0" for the
// first one. The name of a generation has text of a publisher; its hash has none.
func GenerationHash(generation string) string {
	if generation == "" {
		return "0"
	}
	sum := sha256.Sum256([]byte(generation))
	return hex.EncodeToString(sum[:8])
}

// encode percent-encodes all bytes except letters, digits and - _ . ~
func encode(name string) string { return strings.ReplaceAll(url.QueryEscape(name), "+", "%20") }
