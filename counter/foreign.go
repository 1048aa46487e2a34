package counter

import (
	"errors"
	"fmt"
	"strings"
)

// ErrForeign is wrapped if another program wrote a value of another kind to a key of this package. The text names the
// key, or the keys that it may be, and how to remove it. ClearLimit removes an override's.
var ErrForeign = errors.New("another program wrote to a key of the store")

// The replies of Redis for a value of another type, and of record.lua for a string that is no record.
const (
	wrongType = "WRONGTYPE"
	noRecord  = "not a record of strikes"
)

// errorAt is storeError for the keys of a queue, and of a message if it has an ID.
func (c *client) errorAt(m Message, err error) error {
	if faultOf(err) != FaultOther || !isForeign(err) {
		return c.storeError(err)
	}
	q := c.opts.queueKey(m.VHost, m.Queue)
	where := fmt.Sprintf("%q and %q (sorted sets), %q and %q (hashes)", q+setIndex, q+setDead, q+docLimit, q+docTombstones)
	if m.ID != "" {
		where += fmt.Sprintf(" and %q (a record of strikes)", recordKey(q, m))
	}
	return &StoreError{Fault: FaultOther, Err: fmt.Errorf("%w: one of %s has another type; inspect each with redis-cli "+
		"TYPE and GET, and remove that one with DEL: %w", ErrForeign, where, withoutSecrets(err, c.secrets))}
}

// foreignDoc is the error of a document that another program wrote.
func (c *client) foreignDoc(of Queue, name, is string) error {
	if redis, ok := c.store.(redisStore); ok {
		return &StoreError{Fault: FaultOther, Err: fmt.Errorf("%w: %s is %s; inspect it with redis-cli GET, and remove it "+
			"with DEL", ErrForeign, redis.key(of, name), is)}
	}
	return &StoreError{Fault: FaultOther, Err: fmt.Errorf("%w: the document %q of queue %q in %q is %s; delete its row, "+
		"which has this name in strikes_doc", ErrForeign, name, of.Name, of.VHost, is)}
}

// isForeign searches the whole text, because Redis 6 begins it with the name of the script.
func isForeign(err error) bool {
	return strings.Contains(err.Error(), wrongType) || strings.Contains(err.Error(), noRecord)
}
