package cli

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// ExitCodes is what the help says of them. One cause has one code, whatever the command.
const ExitCodes = `Exit codes:
  0    done
  1    failed
  2    usage or refused; a queue, exchange, virtual host or database that does
       not exist; an address of something else
  3    nothing matched
  4    not authorised
  5    the doctor found an error
  69   broker or store out of reach, or its certificate not trusted
  130  interrupted`

// The exit codes.
const (
	ExitOK          = 0
	ExitFailed      = 1
	ExitMisuse      = 2
	ExitNothing     = 3
	ExitDenied      = 4
	ExitFound       = 5
	ExitUnreachable = 69
	ExitInterrupted = 130
)

// Coded is an error with an exit code of its own.
type Coded struct { //nolint:errname // read as cli.Coded; WithCode makes it
	Err  error
	Code int
}

func (e Coded) Error() string { return e.Err.Error() }

// Unwrap returns the error.
func (e Coded) Unwrap() error { return e.Err }

// WithCode gives an error its exit code.
func WithCode(err error, code int) error { return Coded{err, code} }

// Misuse is an error of the command line or what it names.
func Misuse(err error) error { return Coded{err, ExitMisuse} }

// Misusef formats an error of the command line or what it names.
func Misusef(format string, args ...any) error { return Misuse(fmt.Errorf(format, args...)) }

// ExitCode is the exit code of a command that ended with an error, or nil.
func ExitCode(err error) int {
	var known Coded
	var refused *topology.RefusedError
	var store *counter.StoreError
	var publish *publisher.Error
	var answer *amqp.Error
	var field *setting.FieldError
	switch {
	case err == nil:
		return ExitOK
	case errors.As(err, &known):
		return known.Code
	case errors.Is(err, context.Canceled):
		return ExitInterrupted
	case errors.As(err, &refused):
		return refusalCode(refused.Findings)
	case errors.Is(err, topology.ErrQueueNotFound), errors.Is(err, consumer.ErrLanesBlocked), errors.As(err, &field):
		return ExitMisuse
	case errors.As(err, &store):
		return storeCode(store.Fault)
	case errors.Is(err, publisher.ErrConnectionLost):
		return ExitUnreachable
	case errors.As(err, &publish):
		return ReplyCode(publish.Code)
	case errors.As(err, &answer) && answer.Server:
		return ReplyCode(answer.Code)
	case errors.Is(err, amqp.ErrClosed):
		return ExitUnreachable
	}
	return ExitFailed
}

func storeCode(c counter.StoreFault) int {
	switch c {
	case counter.FaultDenied:
		return ExitDenied
	case counter.FaultNotRedis:
		return ExitMisuse
	case counter.FaultOther:
		return ExitFailed
	default:
		return ExitUnreachable
	}
}

// refusalCode is for a queue that consumers must not use. Missing permissions are not the queue's fault.
func refusalCode(why []topology.Finding) int {
	seen := func(f topology.Finding) bool { return f.Code != inspect.CodeDenied }
	if len(why) > 0 && !slices.ContainsFunc(why, seen) {
		return ExitDenied
	}
	return ExitMisuse
}

// ReplyCode is for a reply code of the broker's; zero if there was none.
func ReplyCode(code int) int {
	switch code {
	case amqp.AccessRefused, amqp.NotAllowed:
		return ExitDenied
	case amqp.PreconditionFailed, amqp.NotFound:
		return ExitMisuse
	case amqp.ConnectionForced, amqp.InternalError:
		return ExitUnreachable
	}
	return ExitFailed
}
