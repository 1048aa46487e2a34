package publisher

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/setting"
)

var (
	// ErrUnroutable is returned by Publish for a message that the exchange routed to no queue: the broker returned it.
	// Declare the queue or its binding before you publish again.
	ErrUnroutable = errors.New("publisher: unroutable: no bound queue takes the message")

	// ErrNacked is returned by Publish for a message that the broker confirmed negatively: a queue is full and rejects
	// (x-overflow=reject-publish), or failed. If the exchange routed the message to several queues, others may have it.
	// Publish it again later.
	ErrNacked = errors.New("publisher: nacked: a queue is full or failed")

	// ErrRefused is returned by Publish for a message over which the broker closed the channel, and for any message while
	// the broker refuses the connection. Error.Code and Error.Reason say why: 404 no such exchange, 403 no permission or a
	// wrong password, 406 too large or not acceptable, 530 no access to the vhost. The same message will be refused again.
	ErrRefused = errors.New("publisher: refused by the broker")

	// ErrInvalid is returned by Publish, before anything is sent, for a message that cannot be sent as AMQP or that no
	// amqp091-go consumer could read.
	ErrInvalid = errors.New("publisher: invalid message")

	// ErrConnectionLost is returned by Publish for a message without confirm when its connection or channel ended. It may
	// or may not have been published (Error.Undecided): publish it again with the same id.
	ErrConnectionLost = errors.New("publisher: connection lost before the confirm")

	// ErrClosed is returned by Publish after Close was called, for a message that was not sent.
	ErrClosed = errors.New("publisher: closed")
)

// Error is the error of Publish. errors.Is finds the sentinel, or the error of the ctx that ended the wait.
type Error struct {
	ID       string // MessageId: pass it again when you publish again
	Exchange string
	Key      string

	// Undecided is true if the message may or may not be in a queue. If it is false, the message is in no queue; ErrNacked
	// names the one exception.
	Undecided bool

	// Code and Reason are the broker's, if it sent any: of the basic.return (312 NO_ROUTE), or of the exception that
	// closed the channel or connection.
	Code   int
	Reason string

	Err error
}

func (e *Error) Error() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%v: exchange %q, key %q, message %q", e.Err, e.Exchange, e.Key, e.ID)
	if e.Code != 0 {
		fmt.Fprintf(&b, ": the broker replied %d %q", e.Code, e.Reason)
	}
	if e.Undecided {
		b.WriteString("; it may or may not be published: publish it again with the same id")
	}
	return b.String()
}

func (e *Error) Unwrap() error { return e.Err }

// A FieldError names a refused setting, such as "Window", its value as text without passwords, and the allowed values.
// errors.As finds it. Nothing was done, and a retry does not help.
type FieldError = setting.FieldError

// verdict is the conclusion from the end of a session about a message without confirm.
type verdict struct {
	refused   bool // the broker closed the channel over it
	undecided bool
}

// judge returns the verdicts on left, messages in the order of their writing.
//
// The broker takes messages in that order and stops at the one over which it closes the channel. The exception does not
// identify that message, but it is a candidate. So the last candidate and all messages after it were not published.
func judge(left []*outgoing, c cause) []verdict {
	verdicts := make([]verdict, len(left))
	last := len(left) // the connection was lost: no candidate
	if c.channel && overMessage(c.closed) {
		named := -1
		for i, o := range left {
			if names(c.closed.Reason, o) {
				verdicts[i].refused, named = true, i
			}
		}
		if named < 0 { // any message may be the one
			if named = len(left) - 1; named == 0 {
				verdicts[0].refused = true
			}
		}
		last = named
	}
	for i := range verdicts {
		verdicts[i].undecided = i < last
	}
	return verdicts
}

// overMessage reports whether a publish can cause the exception.
func overMessage(e *amqp.Error) bool {
	return slices.Contains([]int{amqp.NotFound, amqp.AccessRefused, amqp.PreconditionFailed, amqp.ContentTooLarge}, e.Code)
}

// names reports whether the reason of a channel exception (as RabbitMQ 3.10.8, 4.0.5 and 4.3.6 word it) names o's
// exchange, size or user.
func names(reason string, o *outgoing) bool {
	exchange := o.exchange
	if exchange == "" {
		exchange = "amq.default"
	}
	return strings.Contains(reason, "exchange '"+exchange+"' ") ||
		strings.Contains(reason, fmt.Sprintf("message size %d is ", len(o.msg.Body))) ||
		o.msg.UserId != "" && strings.Contains(reason, "user_id property set to '"+o.msg.UserId+"' ")
}

func (v verdict) error(o *outgoing, c cause) error {
	code, reason := 0, ""
	if c.closed != nil {
		code, reason = c.closed.Code, c.closed.Reason
	}
	switch {
	case v.refused:
		return o.failCode(v.undecided, ErrRefused, code, reason)
	case c.closed == nil:
		return o.fail(v.undecided, fmt.Errorf("%w: %w", ErrConnectionLost, c.err))
	case c.channel:
		return o.failCode(v.undecided, fmt.Errorf("%w: the broker closed the channel over this message or one beside it",
			ErrConnectionLost), code, reason)
	case broker.CutRefusal(c.closed, o.exchange):
		return o.failCode(v.undecided, fmt.Errorf("%w: the exchange may be missing (RabbitMQ ends the connection over a "+
			"long name that is not ASCII); declare it", ErrConnectionLost), code, reason)
	}
	return o.failCode(v.undecided, ErrConnectionLost, code, reason)
}

// refusal returns the error of a message that cannot be sent because the broker refuses the connection, or dial cannot
// be used.
func refusal(o *outgoing, err error) error {
	var reply *amqp.Error
	if errors.As(err, &reply) {
		return o.failCode(false, fmt.Errorf("%w: no connection", ErrRefused), reply.Code, reply.Reason)
	}
	return o.fail(false, fmt.Errorf("publisher: not sent: no connection: %w", err))
}
