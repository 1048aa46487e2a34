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
	var n [10]int64 // the counts, at their places
	for i, v := range list {
		if i == 0 || i == 6 || i == 7 { // texts
			continue
		}
		if n[i], ok = v.(int64); !ok || n[i] < 0 {
			return Reply{}, fmt.Errorf("%w: value %d: got %.80q, want a count", ErrReply, i, fmt.Sprint(v))
		}
	}
	name, _ := list[0].(string)
	code := rules.ReplyCode(name)
	if !code.OfScript() {
		return Reply{}, fmt.Errorf("%w: code %.80q", ErrReply, fmt.Sprint(list[0]))
	}
	cause, _ := list[6].(string)
	reason, _ := list[7].(string)
	if code != rules.ReplyMove {
		n[9] = 0
	}
	return Reply{
		Code: code, Failures: int(n[1]), Crashes: int(n[2]), Limit: int(n[3]), Fence: n[4],
		Wait: time.Duration(min(n[5], rules.MaxWaitMillis)) * time.Millisecond, Cause: Cause(cause), Reason: reason,
		PossibleDuplicate: n[8] == 1, CopyNumber: n[9],
	}, nil
}
