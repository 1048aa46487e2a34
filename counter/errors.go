package counter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"
)

// ErrUnsafeClient is wrapped by every method of a Counter that New was given a client for whose settings it refuses. The
// text names the setting; set it so, or use Dial.
var ErrUnsafeClient = errors.New("counter: unsafe Redis client")

// ErrReply is wrapped when a server answers a script with something other than the script's reply: it is not the Redis
// that it is taken for, or something between it and this process changes replies. Nothing is decided from such a reply.
var ErrReply = errors.New("unexpected reply")

// Cause tells failures of the store apart.
type StoreFault string

// What the store's failure was.
const (
	FaultUnreachable StoreFault = "unreachable" // no connection, or it broke
	FaultSlow        StoreFault = "slow"        // no reply in time; the step may or may not have been taken
	FaultReadOnly    StoreFault = "read-only"   // a replica answers: a failover is under way, or the address is wrong
	FaultOutOfMemory StoreFault = "out of memory"
	FaultLoading     StoreFault = "loading" // reading its data set after a start
	FaultBusy        StoreFault = "busy"    // another script runs
	FaultFailover    StoreFault = "failover"
	FaultDenied      StoreFault = "denied" // credentials or ACL
	FaultNotRedis    StoreFault = "not a Redis"
	FaultOther       StoreFault = "error"
)

// StoreError is what a step or an operator's call returns when the store failed it. Its text has no password, even if a
// server quotes the arguments of a command that it does not know. Errors other than Denied and NotRedis
// pass without anybody's doing, or should be waited for. A context that was canceled is OtherCause, and errors.Is finds
// context.Canceled in it.
type StoreError struct {
	Fault StoreFault
	Err   error
}

func (e *StoreError) Error() string { return fmt.Sprintf("store %s: %v", e.Fault, e.Err) }

func (e *StoreError) Unwrap() error { return e.Err }

// storeError returns err as a StoreError, without a password.
func (c *client) storeError(err error) error {
	return &StoreError{Fault: faultOf(err), Err: withoutSecrets(err, c.secrets)}
}

// replyCauses are the error codes that servers answer with.
var replyFaults = []struct {
	code  string
	cause StoreFault
}{
	{"READONLY", FaultReadOnly}, {"OOM", FaultOutOfMemory}, {"LOADING", FaultLoading}, {"BUSY", FaultBusy},
	{"MASTERDOWN", FaultFailover}, {"CLUSTERDOWN", FaultFailover}, {"TRYAGAIN", FaultFailover}, {"MOVED", FaultFailover}, {"ASK", FaultFailover},
	{"NOREPLICAS", FaultFailover}, {"MISCONF", FaultOutOfMemory},
	{"NOAUTH", FaultDenied}, {"WRONGPASS", FaultDenied}, {"NOPERM", FaultDenied}, {"ERR AUTH", FaultDenied}, {"ERR invalid password", FaultDenied},
	{"ERR Protocol error: unauthenticated", FaultDenied},                                                 // more arguments than a server takes before AUTH
	{"ERR The user executing the script can't", FaultDenied}, {"ERR ACL failure in script", FaultDenied}, // Redis 7.0; 7.2 and later
	{"ERR unknown command", FaultNotRedis},
}

func faultOf(err error) StoreFault {
	var reply redis.Error
	if errors.As(err, &reply) {
		text := reply.Error()
		if strings.HasPrefix(text, "ERR Error running script") { // Redis 6 wraps what a script met
			if strings.Contains(text, "The user executing the script can't") { // 6.0 puts no code before it
				return FaultDenied
			}
			_, text, _ = strings.Cut(text, ": -")
		}
		for _, r := range replyFaults {
			if strings.HasPrefix(text, r.code) {
				return r.cause
			}
		}
	}
	var network net.Error
	switch {
	case errors.Is(err, context.Canceled):
		return FaultOther
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout(), errors.Is(err, redis.ErrPoolTimeout):
		return FaultSlow
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF), errors.Is(err, redis.ErrClosed):
		return FaultUnreachable
	case strings.HasPrefix(err.Error(), "redis: can't parse"), strings.HasPrefix(err.Error(), "redis: invalid"):
		return FaultNotRedis
	}
	return FaultOther
}
