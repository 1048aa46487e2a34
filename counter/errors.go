package counter

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/setting"
)

// ErrUnsafeClient is wrapped by every method of a Counter whose client has unsafe settings. The text names the setting:
// change it, or use Dial.
var ErrUnsafeClient = errors.New("unsafe Redis client")

// A FieldError says which setting is refused; nothing was done with it. Field is its name, such as "Prefix". Value is
// the refused value, as text, never with a password. Want says which values are allowed. errors.As finds it; a retry
// does not help.
type FieldError = setting.FieldError

// StoreFault is why the store failed.
type StoreFault string

// The faults of a store.
const (
	FaultUnreachable StoreFault = "unreachable"  // no connection, or it broke
	FaultSlow        StoreFault = "slow"         // no reply in time; the step may or may not have been taken
	FaultReadOnly    StoreFault = "read-only"    // a replica, a read-only database, or a Redis that cannot save
	FaultOutOfSpace  StoreFault = "out of space" // of memory or disk
	FaultLoading     StoreFault = "loading"      // it reads its data after a start
	FaultBusy        StoreFault = "busy"         // another script runs
	FaultFailover    StoreFault = "failover"
	FaultDenied      StoreFault = "denied"          // credentials or ACL
	FaultOtherKind   StoreFault = "of another kind" // no Redis; or a Cluster or a Sentinel where the URL says another
	FaultNotSetUp    StoreFault = "not set up"      // no database, no tables, or tables of another version
	FaultOther       StoreFault = "error"
)

// StoreError is returned by every method if the store failed. Its text contains no password, even if a server quotes
// the arguments of a command that it does not know. FaultDenied, FaultOtherKind and FaultNotSetUp need an operator;
// wait for the other faults to pass. A cancelled context is FaultOther, and errors.Is finds context.Canceled in it.
type StoreError struct {
	Fault StoreFault
	Err   error
}

func (e *StoreError) Error() string { return fmt.Sprintf("store %s: %v", e.Fault, e.Err) }

func (e *StoreError) Unwrap() error { return e.Err }

// storeError returns err as a StoreError, without a password. If the URL is wrong, it says how.
func (c *client) storeError(err error) error {
	failed := &StoreError{Fault: faultOf(err), Err: withoutSecrets(err, c.secrets)}
	if _, single := c.rdb.(*redis.Client); single && redis.HasErrorPrefix(err, "MOVED") { // it will not pass
		failed.Fault = FaultOtherKind
	}
	for _, r := range remedies {
		if failed.Fault == r.fault && strings.Contains(err.Error(), r.text) {
			failed.Err = fmt.Errorf("%w; %s", failed.Err, r.do)
			break
		}
	}
	return failed
}

var (
	errSentinel = errors.New("the server is a Sentinel: give the URL the scheme redis+sentinel or rediss+sentinel, and " +
		"the parameter master_name")
	errCluster = errors.New("the server is one of a Cluster: give the URL the scheme redis+cluster or rediss+cluster")
)

func isOtherKind(err error) bool { return errors.Is(err, errSentinel) || errors.Is(err, errCluster) }

const allow = "an administrator of the store must allow it: strikes doctor prints the command"

// remedies say how to correct the URL or the user's permissions, by the error of the server.
var remedies = []struct {
	fault    StoreFault
	text, do string
}{
	{FaultDenied, "NOPERM", allow}, {FaultDenied, "user executing the script can't", allow},
	{FaultDenied, "ACL failure in script", allow},
	{FaultOtherKind, "MOVED", errCluster.Error()},
	{FaultOtherKind, "cluster support disabled", "the server is no Cluster: give the URL the scheme redis or rediss"},
	{FaultOtherKind, "all sentinels", "the server is no Sentinel: give the URL the scheme redis or rediss"},
	{FaultOtherKind, "can't parse", "another server than a Redis replies: correct host and port in the URL"},
	{FaultNotSetUp, "all sentinels", "the sentinels know no master of this name: correct the parameter master_name"},
	{FaultNotSetUp, "ERR ", "correct the number of the database at the end of the URL: redis-cli CONFIG GET databases " +
		"shows how many there are, and a Cluster has only 0"},
}

// failed adds the attempted step and the queue to err; nil for nil.
func failed(doing, queue string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("counter: %s, queue %q: %w", doing, queue, err)
}

// replyFaults are the error codes in the replies of servers.
var replyFaults = []struct {
	code  string
	fault StoreFault
}{
	{"READONLY", FaultReadOnly}, {"OOM", FaultOutOfSpace}, {"LOADING", FaultLoading}, {"BUSY", FaultBusy},
	{"MASTERDOWN", FaultFailover}, {"CLUSTERDOWN", FaultFailover}, {"TRYAGAIN", FaultFailover}, {"MOVED", FaultFailover},
	{"ASK", FaultFailover},
	{"NOREPLICAS", FaultFailover}, {"MISCONF", FaultReadOnly},
	{"NOAUTH", FaultDenied}, {"WRONGPASS", FaultDenied}, {"NOPERM", FaultDenied}, {"ERR AUTH", FaultDenied},
	{"ERR invalid password", FaultDenied},
	// more arguments than a server takes before AUTH
	{"ERR Protocol error: unauthenticated", FaultDenied},
	// Redis 7.0; 7.2 and later
	{"ERR The user executing the script can't", FaultDenied}, {"ERR ACL failure in script", FaultDenied},
	{"ERR unknown command", FaultOtherKind}, {"ERR This instance has cluster support disabled", FaultOtherKind},
	{"ERR DB index is out of range", FaultNotSetUp}, {"ERR SELECT is not allowed in cluster mode", FaultNotSetUp},
}

func faultOf(err error) StoreFault {
	var reply redis.Error
	if errors.As(err, &reply) {
		text := reply.Error()
		if strings.HasPrefix(text, "ERR Error running script") { // Redis 6 wraps the error of a script
			if strings.Contains(text, "The user executing the script can't") { // 6.0 adds no code
				return FaultDenied
			}
			_, text, _ = strings.Cut(text, ": -")
		}
		for _, r := range replyFaults {
			if strings.HasPrefix(text, r.code) {
				return r.fault
			}
		}
	}
	var network net.Error
	switch {
	case isOtherKind(err):
		return FaultOtherKind
	case errors.Is(err, redis.Nil) && strings.Contains(err.Error(), "all sentinels"):
		return FaultNotSetUp
	case errors.Is(err, context.Canceled):
		return FaultOther
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &network) && network.Timeout(),
		errors.Is(err, redis.ErrPoolTimeout):
		return FaultSlow
	case errors.As(err, &network), errors.Is(err, io.EOF), errors.Is(err, io.ErrUnexpectedEOF),
		errors.Is(err, redis.ErrClosed):
		return FaultUnreachable
	case strings.HasPrefix(err.Error(), "redis: can't parse"), strings.HasPrefix(err.Error(), "redis: invalid"):
		return FaultOtherKind
	}
	return FaultOther
}
