package counter

import (
	"errors"
	"fmt"
	"strings"
)

// ErrForeign is wrapped when somebody else wrote to one of the keys that are needed what this package never writes there. The
// text names the key, or those that it may be, and what removes it. An override's is removed by ClearLimit.
var ErrForeign = errors.New("somebody else wrote to a key of the store")

// errorAt is storeError for what was done with the keys of a queue, and of a message if it has an ID.
func (c *client) errorAt(m Message, err error) error {
	if faultOf(err) != FaultOther || !isForeign(err) {
		return c.storeError(err)
	}
	k := c.opts.keys(m)
	where := fmt.Sprintf("%q (a sorted set), %q and %q (hashes)", k.index, k.override, k.dead)
	if m.ID != "" {
		where += fmt.Sprintf(" and %q (a record of strikes)", k.record)
	}
	return &StoreError{Fault: FaultOther, Err: fmt.Errorf("%w: of %s one is something else: look at each with redis-cli TYPE and GET, and remove that one with DEL: %w", ErrForeign, where, withoutSecrets(err, c.secrets))}
}

// isForeign also sees what Redis 6 puts the name of a script before.
func isForeign(err error) bool {
	return strings.Contains(err.Error(), wrongType) || strings.Contains(err.Error(), noRecord)
}

// What Redis says of a value of another type, and record.lua of a string that is no record.
const (
	wrongType = "WRONGTYPE"
	noRecord  = "not a record of strikes"
)
