package broker

import (
	"errors"
	"fmt"
	"io"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestRefusedCountsASilentCloseFromTheSecond(t *testing.T) {
	denied := fmt.Errorf("dial: %w", amqp.ErrCredentials)
	crowded := func(reason string) error {
		return &amqp.Error{Code: amqp.NotAllowed, Server: true, Reason: "NOT_ALLOWED - " + reason}
	}
	tests := map[string]struct {
		err, before error
		want        bool
	}{
		"refused connection":      {io.EOF, io.EOF, false},
		"wrong password, once":    {denied, nil, false},
		"wrong password, twice":   {denied, denied, true},
		"password, EOF, password": {denied, io.EOF, false},
		"password, then vhost":    {amqp.ErrVhost, denied, false},
		"the virtual host is full": {crowded("access to vhost '/' refused for user 'guest': connection limit (1) is reached"),
			nil, false},
		"the user has too many": {crowded("connection refused for user 'guest': user connection limit (1) is reached"), nil,
			false},
		"the broker says so": {&amqp.Error{Code: amqp.NotAllowed, Server: true}, nil, true},
		"the broker said it before": {denied, &amqp.Error{Code: amqp.AccessRefused, Reason: "ACCESS_REFUSED", Server: true},
			false},
		"the broker goes down": {&amqp.Error{Code: amqp.ConnectionForced, Server: true}, nil, false},
		"another error":        {errors.New("x"), errors.New("x"), false},
	}
	for name, tt := range tests {
		if got := Refused(tt.err, tt.before); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestCutShort(t *testing.T) {
	said := &amqp.Error{Code: amqp.AccessRefused, Server: true}
	for _, tt := range []struct {
		err  error
		took time.Duration
		cut  bool
	}{
		{amqp.ErrCredentials, 100 * time.Millisecond, true},
		{fmt.Errorf("dial: %w", amqp.ErrCredentials), time.Second, true},
		{amqp.ErrCredentials, 3 * time.Second, false},
		{amqp.ErrVhost, time.Minute, true},
		{amqp.ErrSASL, 0, false},
		{said, 0, false},
		{io.EOF, 0, false},
	} {
		got := cutShort(tt.err, tt.took)
		//nolint:errorlint // the same
		if cut := errors.Is(got, io.ErrUnexpectedEOF); cut != tt.cut || !cut && got != tt.err || cut && Refused(got, got) {
			t.Errorf("%v after %v: %v", tt.err, tt.took, got)
		}
	}
	if got := cutShort(nil, 0); got != nil {
		t.Error(got)
	}
}
