package main

import (
	"context"
	"errors"
	"fmt"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// exitCodes is what the help says of them. One cause has one code, whatever the command.
const exitCodes = "Exit codes: 0 done; 1 failed; 2 usage or refused, a queue, exchange, virtual host or database that\n" +
	"does not exist, or an address of something else; 3 nothing matched; 4 not authorised; 5 the doctor found an error;\n" +
	"69 broker or store out of reach, or its certificate not trusted; 130 interrupted."

const (
	exitOK          = 0
	exitFailed      = 1
	exitUsage       = 2
	exitNothing     = 3
	exitDenied      = 4
	exitFound       = 5
	exitUnreachable = 69
	exitInterrupted = 130
)

// coded is an error whose exit code was clear where it arose.
type coded struct {
	error
	code int
}

func (e coded) Unwrap() error { return e.error }

func usage(err error) error { return coded{err, exitUsage} }

func usagef(format string, args ...any) error { return usage(fmt.Errorf(format, args...)) }

func exitCode(err error) int {
	var known coded
	var refused *topology.RefusedError
	var store *counter.StoreError
	var publish *publisher.Error
	var answer *amqp.Error
	var field *setting.FieldError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &known):
		return known.code
	case errors.Is(err, context.Canceled):
		return exitInterrupted
	case errors.As(err, &refused):
		return refusalCode(refused.Findings)
	case errors.Is(err, topology.ErrQueueNotFound), errors.As(err, &field):
		return exitUsage
	case errors.As(err, &store):
		return storeCode(store.Fault)
	case errors.Is(err, publisher.ErrConnectionLost):
		return exitUnreachable
	case errors.As(err, &publish):
		return answerCode(publish.Code)
	case errors.As(err, &answer) && answer.Server:
		return answerCode(answer.Code)
	case errors.Is(err, amqp.ErrClosed):
		return exitUnreachable
	}
	return exitFailed
}

func storeCode(c counter.StoreFault) int {
	switch c {
	case counter.FaultDenied:
		return exitDenied
	case counter.FaultNotRedis:
		return exitUsage
	case counter.FaultOther:
		return exitFailed
	default:
		return exitUnreachable
	}
}

// refusalCode is for a queue that consumers must not use. What nobody was let see is not the queue's fault.
func refusalCode(why []topology.Finding) int {
	seen := func(f topology.Finding) bool { return f.Code != topology.CodeDenied }
	if len(why) > 0 && !slices.ContainsFunc(why, seen) {
		return exitDenied
	}
	return exitUsage
}

// answerCode is for a reply code of the broker's; zero if there was none.
func answerCode(code int) int {
	switch code {
	case amqp.AccessRefused, amqp.NotAllowed:
		return exitDenied
	case amqp.PreconditionFailed, amqp.NotFound:
		return exitUsage
	case amqp.ConnectionForced, amqp.InternalError:
		return exitUnreachable
	}
	return exitFailed
}
