package cli

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"regexp"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// ExitCodes is the text of the help about exit codes. One cause has one code, whatever the command.
const ExitCodes = `Exit codes:
  0    done
  1    failed
  2    usage or refused; a queue, exchange, virtual host or database that does
       not exist; a URL with the wrong scheme
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

// Misuse is an error of the command line or of something that it names.
func Misuse(err error) error { return Coded{err, ExitMisuse} }

// Misusef formats an error of the command line or of something that it names.
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
	case errors.Is(err, broker.ErrDenied):
		return ExitDenied
	case errors.As(err, &refused):
		seen := func(f topology.Finding) bool { return f.Code != inspect.CodeDenied }
		if len(refused.Findings) > 0 && !slices.ContainsFunc(refused.Findings, seen) {
			return ExitDenied // missing permissions are not the queue's fault
		}
		return ExitMisuse
	case errors.Is(err, topology.ErrQueueNotFound), errors.Is(err, topology.ErrRefused), errors.Is(err, broker.ErrURL),
		errors.Is(err, consumer.ErrLanesBlocked), errors.As(err, &field):
		return ExitMisuse
	case errors.As(err, &store):
		faults := map[counter.StoreFault]int{counter.FaultDenied: ExitDenied, counter.FaultOtherKind: ExitMisuse,
			counter.FaultNotSetUp: ExitMisuse, counter.FaultOther: ExitFailed}
		return cmp.Or(faults[store.Fault], ExitUnreachable)
	case errors.As(err, &publish) && ReplyCode(publish.Code) != ExitFailed: // also of one lost beside a refused message
		return ReplyCode(publish.Code)
	case errors.Is(err, publisher.ErrConnectionLost), broker.IsAway(err):
		return ExitUnreachable
	case errors.As(err, &publish):
		return ExitFailed
	case errors.As(err, &answer) && answer.Server:
		return ReplyCode(answer.Code)
	case errors.Is(err, amqp.ErrClosed):
		return ExitUnreachable
	}
	return ExitFailed
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

// Complaint returns the text of an error that ends a command; empty if it needs none.
func Complaint(cmd *cobra.Command, err error) string {
	var refused *topology.RefusedError
	var field *setting.FieldError
	switch {
	case err == nil:
		return ""
	case Interrupted(err):
		return "interrupted"
	case errors.Is(err, context.Canceled) && ExitCode(err) == ExitInterrupted:
		return "interrupted: " + Plain(err) // it has the results until then, as that of declare
	case errors.As(err, &refused):
		return Plain(refused) + "\n" + forMore(cmd, refused.Queue) // its wrapper says no more
	case errors.As(err, &field) && argumentOf(cmd, field.Field) != "":
		return InFlags(field.Of(argumentOf(cmd, field.Field)))
	case noPermission.MatchString(err.Error()) && !strings.Contains(err.Error(), "; grant it to the user: "):
		return Plain(err) + "; grant it to the user: docs/cli.md#permissions lists the permissions of each command"
	}
	return Plain(err)
}

// Interrupted reports whether err says only that a signal ended the command.
func Interrupted(err error) bool {
	return errors.Is(err, context.Canceled) && ExitCode(err) == ExitInterrupted &&
		(errors.As(err, new(*counter.StoreError)) || err.Error() == context.Canceled.Error())
}

// noPermission finds RabbitMQ's reply to a user who lacks a permission (3.10, 4.3).
var noPermission = regexp.MustCompile("access to (queue|exchange|topic) '.* refused for user")

// forMore names the command that examines a queue as the consumer of cmd did.
func forMore(cmd *cobra.Command, queue string) string {
	return "for more, run: strikes doctor " + Examined(cmd) + shell.Operands(queue)
}

// Examined returns the flags of the doctor, for a shell, with the settings of consumers that cmd was given. Each ends
// with a space.
func Examined(cmd *cobra.Command) (flags string) {
	if cmd == nil {
		return ""
	}
	for _, name := range []string{"max-retries", "ordered", "allow-drop"} {
		if f := cmd.Flags().Lookup(name); f != nil && f.Changed {
			flags += "--" + name + "=" + shell.Word(f.Value.String()) + " "
		}
	}
	return strings.ReplaceAll(flags, "=true ", " ")
}

// libraries are the packages that begin their errors with their names.
var libraries = []string{"consumer", "counter", "deadletter", "publisher", "topology"}

// Plain is the text of an error for users, without the names of packages, and with flags for settings.
func Plain(err error) string {
	text := InFlags(err.Error())
	for _, name := range libraries {
		text = strings.ReplaceAll(strings.TrimPrefix(text, name+": "), ": "+name+": ", ": ")
	}
	return text
}

// flagsOfFields are the flags that set fields of other names.
var flagsOfFields = map[string]string{"ConfirmTimeout": "timeout", "Management": "management-url"}

// argumentOf returns the flag or the argument of a command that sets a field which a library refused, such as Queue. It
// returns the empty text if the command has none.
func argumentOf(cmd *cobra.Command, field string) string {
	name := cmp.Or(flagsOfFields[field], strings.ToLower(words.ReplaceAllString(field, "$1-$2")))
	switch {
	case cmd == nil:
		return ""
	case cmd.Flags().Lookup(name) != nil:
		return "--" + name
	case slices.Contains(strings.Fields(cmd.Use), strings.ToUpper(field)):
		return strings.ToUpper(field)
	}
	return ""
}

// words finds the borders between the words of a field's name: the flag of MaxRetries is max-retries.
var words = regexp.MustCompile(`([a-z])([A-Z])`)

// inFlags has the command's words for settings that the library names in its texts.
var inFlags = strings.NewReplacer(
	"(Check.Management)", "(--management-url)", "(Check.AllowDrop)", "(--allow-drop)",
	"HoldLanes without a Lane", "--hold-lanes without --lane-header",
	"half the consumer timeout", "half of --consumer-timeout", "with a Lane", "with --lane-header",
	"without a Lane", "without --lane-header",
	"with Partitions", "with --partitions", "without a Breaker", "without --breaker",
	"unless Ordered", "unless --ordered", "when Ordered", "with --ordered",
	"RetryInPlace", "in-place", "RetryRequeue", "requeue",
	"set HoldLanes and Lane to", "set --hold-lanes and --lane-header to",
	"topology.Declare with DelayQueues", "strikes declare --delay-queues QUEUE",
)

var raised = regexp.MustCompile(`(declare it again with x-delivery-limit=(\d+))( \(strikes declare [^)]*\))?`)

// InFlags returns a text of the library in which the settings to change are flags. It changes nothing in such a text.
func InFlags(text string) string {
	return raised.ReplaceAllString(inFlags.Replace(text), "$1 (strikes declare --delivery-limit $2 QUEUE)")
}
