package counter

import (
	"errors"
	"fmt"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// ErrReply is wrapped by every method if a server replies to a script with something else than the script's reply. The
// server is no Redis, or something between it and this process changes replies. Decide nothing from such a reply.
var ErrReply = errors.New("unexpected reply")

// parseReply reads a script's reply to one step.
func parseReply(reply any) (Reply, error) {
	list, ok := reply.([]any)
	if !ok || len(list) != 9 && len(list) != 10 {
		return Reply{}, fmt.Errorf("%w: got %.80q, want 9 values", ErrReply, fmt.Sprint(reply))
	}
	copyNumber, isCount := int64(0), true
	if len(list) == 10 {
		copyNumber, isCount = list[9].(int64)
	}
	if !isCount || copyNumber < 0 {
		return Reply{}, fmt.Errorf("%w: value 9: got %.80q, want a count", ErrReply, fmt.Sprint(list[9]))
	}
	double, ok := list[8].(int64)
	if !ok {
		return Reply{}, fmt.Errorf("%w: value 8: got %.80q, want 0 or 1", ErrReply, fmt.Sprint(list[8]))
	}
	var n [5]int64
	for i := range n {
		if n[i], ok = list[i+1].(int64); !ok || n[i] < 0 {
			return Reply{}, fmt.Errorf("%w: value %d: got %.80q, want a count", ErrReply, i+1, fmt.Sprint(list[i+1]))
		}
	}
	name, _ := list[0].(string)
	code := ReplyCode(name)
	if !code.OfScript() {
		return Reply{}, fmt.Errorf("%w: code %.80q", ErrReply, fmt.Sprint(list[0]))
	}
	cause, _ := list[6].(string)
	reason, _ := list[7].(string)
	if code != ReplyMove {
		copyNumber = 0
	}
	return Reply{
		CopyNumber: copyNumber, Code: code, Failures: int(n[0]), Crashes: int(n[1]), Limit: int(n[2]), Fence: n[3],
		Wait: time.Duration(min(n[4], rules.MaxWaitMillis)) * time.Millisecond, Cause: Cause(cause), Reason: reason,
		PossibleDuplicate: double == 1,
	}, nil
}
