package publisher

import (
	"errors"
	"fmt"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
)

// verdict is what the end of a session says about a message without confirm.
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
		last = markCandidates(verdicts, left, c.closed.Reason)
	}
	for i := range verdicts {
		verdicts[i].undecided = i < last
	}
	return verdicts
}

// markCandidates marks the messages that the reason names and returns the index of the last candidate. If the reason
// names none, any message may be the one: only a single message is marked.
func markCandidates(verdicts []verdict, left []*outgoing, reason string) (last int) {
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
