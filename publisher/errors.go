package publisher

import (
	"errors"
	"fmt"
	"strings"

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

// Error is what Publish returns. errors.Is finds the sentinel, or the error of the ctx that ended the wait.
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

// A FieldError names a refused setting, such as "Window", its value as text without passwords, and what it must be.
// errors.As finds it. Nothing was done, and a retry does not help.
type FieldError = setting.FieldError
