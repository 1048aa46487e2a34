package publisher

import (
	"errors"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestJudge(t *testing.T) {
	to := func(exchanges ...string) (list []*outgoing) {
		for _, x := range exchanges {
			list = append(list, newOutgoing(x, "k", &amqp.Publishing{UserId: "bob", Body: make([]byte, len(x))}))
		}
		return list
	}
	channel := func(code int, reason string) cause {
		e := &amqp.Error{Code: code, Reason: reason, Server: true}
		return cause{err: e, closed: e, channel: true}
	}
	lost := cause{err: errors.New("EOF"), closed: &amqp.Error{Code: amqp.FrameError, Reason: "EOF"}}
	noX := channel(amqp.NotFound, "NOT_FOUND - no exchange 'x' in vhost '/'")
	var (
		undecided = verdict{undecided: true}
		maybe     = verdict{refused: true, undecided: true}
		refused   = verdict{refused: true}
		unsent    = verdict{}
	)
	tests := map[string]struct {
		left []*outgoing
		c    cause
		want []verdict
	}{
		"nothing left":        {nil, noX, []verdict{}},
		"connection lost":     {to("a", "x"), lost, []verdict{undecided, undecided}},
		"closed on this side": {to("x"), cause{err: errStopped}, []verdict{undecided}},
		"named":               {to("a", "x", "b"), noX, []verdict{undecided, refused, unsent}},
		"named twice":         {to("x", "a", "x", "b"), noX, []verdict{maybe, undecided, refused, unsent}},
		"a name in a name":    {to("xx", "x"), noX, []verdict{undecided, refused}},
		"not named, alone":    {to("a"), channel(amqp.PreconditionFailed, "odd"), []verdict{refused}},
		"not named, beside":   {to("a", "b"), channel(amqp.PreconditionFailed, "odd"), []verdict{undecided, unsent}},
		"the default exchange": {to("", "a"), channel(amqp.AccessRefused, "ACCESS_REFUSED - write access to exchange "+
			"'amq.default' in vhost '/' refused for user 'u'"), []verdict{refused, unsent}},
		"too large": {to("a", "four", "b"), channel(amqp.PreconditionFailed,
			"PRECONDITION_FAILED - message size 4 is larger than configured max size 3"),
			[]verdict{undecided, refused, unsent}},
		"not his name": {to("a"), channel(amqp.PreconditionFailed,
			"PRECONDITION_FAILED - user_id property set to 'bob' but authenticated user was 'eve'"), []verdict{refused}},
		"not over a message": {to("a"), channel(amqp.ResourceError, "exchange 'a' "), []verdict{undecided}},
	}
	for name, tt := range tests {
		t.Run(name, func(t *testing.T) {
			if diff := cmp.Diff(tt.want, judge(tt.left, tt.c), cmp.AllowUnexported(verdict{})); diff != "" {
				t.Error(diff)
			}
		})
	}
}

func TestVerdictError(t *testing.T) {
	e := &amqp.Error{Code: amqp.NotFound, Reason: "NOT_FOUND - no exchange 'x'", Server: true}
	cut := &amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR", Server: true}
	tests := map[string]struct {
		v    verdict
		c    cause
		want error
		says string
	}{
		"refused": {verdict{refused: true}, cause{err: e, closed: e, channel: true}, ErrRefused,
			`publisher: refused by the broker: exchange "x", key "k", message "m": ` +
				`the broker replied 404 "NOT_FOUND - no exchange 'x'"`},
		"beside": {verdict{undecided: true}, cause{err: e, closed: e, channel: true}, ErrConnectionLost,
			"over this message or one beside it"},
		"lost": {verdict{undecided: true}, cause{err: e, closed: e}, ErrConnectionLost,
			"publish it again with the same id"},
		"long name": {verdict{undecided: true}, cause{err: cut, closed: cut}, ErrConnectionLost, "exchange may be missing"},
		"closed":    {verdict{undecided: true}, cause{err: errStopped}, ErrConnectionLost, "the publisher was closed"},
	}
	for name, tt := range tests {
		exchange := "x"
		if name == "long name" {
			exchange = strings.Repeat("ä", 120)
		}
		err := tt.v.error(newOutgoing(exchange, "k", &amqp.Publishing{MessageId: "m"}), tt.c)
		if !errors.Is(err, tt.want) || !strings.Contains(err.Error(), tt.says) {
			t.Errorf("%s: got %v, want %v that says %q", name, err, tt.want, tt.says)
		}
	}
}
