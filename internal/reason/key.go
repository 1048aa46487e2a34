package reason

import (
	"crypto/sha256"
	"encoding/base32"
)

// keys has neither l nor o, which look like digits, and neither 0 nor 1.
var keys = base32.NewEncoding("abcdefghijkmnpqrstuvwxyz23456789").WithPadding(base32.NoPadding)

// keyBytes make collisions rare: of 1,000 groups two share a key once in two million queues.
const keyBytes = 5

// Key names the group of a kind and a normalised reason in eight letters and digits. It is the same on every machine
// and in every release, as long as Normalise groups the reasons alike.
func Key(kind, normalised string) string {
	sum := sha256.Sum256([]byte(kind + "\n" + normalised))
	return keys.EncodeToString(sum[:keyBytes])
}

// IsKey reports whether a text may be a Key.
func IsKey(text string) bool {
	_, err := keys.DecodeString(text)
	return err == nil && len(text) == keys.EncodedLen(keyBytes)
}
