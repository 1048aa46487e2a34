package publisher

import (
	"errors"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// verdict is what the end of a session says of a message left without confirm.
type verdict struct {
	refused   bool // the broker closed the channel over it
	undecided bool
}

// judge gives the verdicts on left, messages in the order of their writing.
//
// The broker takes messages in that order and stops at the one that it closes
// the channel over. Which one that was, the exception does not say; but it was
// a suspect, so the last suspect and all after it were not published.
func judge(left []*outgoing, c cause) []verdict {
	verdicts := make([]verdict, len(left))
	last := len(left) // the connection was lost: nobody is suspect
	if c.channel && overMessage(c.closed) {
		last = accuse(verdicts, left, c.closed.Reason)
	}
	for i := range verdicts {
		verdicts[i].undecided = i < last
	}
	return verdicts
}

// accuse marks the suspects: those that the reason names. If it names none,
// any message may be the one, so only a message on its own is marked. It
// returns the index of the last suspect.
func accuse(verdicts []verdict, left []*outgoing, reason string) (last int) {
	last = -1
	for i, o := range left {
		if names(reason, o) {
			verdicts[i].refused, last = true, i
		}
	}
	if last >= 0 {
		return last
	}
	if len(left) == 1 {
		verdicts[0].refused = true
	}
	return len(left) - 1
}

// overMessage is true of the exceptions that a publish can meet with.
func overMessage(e *amqp.Error) bool {
	switch e.Code {
	case amqp.NotFound, amqp.AccessRefused, amqp.PreconditionFailed, amqp.ContentTooLarge:
		return true
	}
	return false
}

// names is true if a channel exception's reason (worded as RabbitMQ 3.10.8,
// 4.0.5 and 4.3.6 do) names o's exchange, size or user.
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
		return o.failCode(v.undecided, fmt.Errorf("%w: the broker closed the channel, over this message or one beside it", ErrConnectionLost), code, reason)
	}
	return o.failCode(v.undecided, ErrConnectionLost, code, reason)
}

// refusal is the error of a message that cannot be sent because the broker
// lets nobody in, or dial is misused.
func refusal(o *outgoing, err error) error {
	var said *amqp.Error
	if errors.As(err, &said) {
		return o.failCode(false, fmt.Errorf("%w: no connection", ErrRefused), said.Code, said.Reason)
	}
	return o.fail(false, fmt.Errorf("publisher: not sent: no connection: %w", err))
}
