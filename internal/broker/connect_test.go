package broker

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/setting"
)

func TestConnectRefuses(t *testing.T) {
	const odd = "amqp://user:s3cret@host:port/"
	if _, err := amqp.ParseURI(odd); err == nil || !strings.Contains(err.Error(), "s3cret") {
		t.Fatalf("the error of amqp091-go has no password any more, so Connect need not hide it: %v", err)
	}
	down := errors.New("down")
	for name, tc := range map[string]struct {
		dial      func(context.Context) (*amqp.Connection, error)
		want      string
		permanent bool
	}{
		"nothing": {func(context.Context) (*amqp.Connection, error) {
			return nil, nil
		}, "neither a connection nor an error", true},
		"URL": {func(context.Context) (*amqp.Connection, error) {
			_, err := amqp.ParseURI(odd)
			return nil, fmt.Errorf("dialling: %w", err)
		}, "cannot be parsed", true},
		"parameter": {func(ctx context.Context) (*amqp.Connection, error) {
			return Dial(ctx, "amqps://user:s3cret@localhost/?cafile=x", amqp.Config{}, nil)
		}, `"cafile"`, true},
		"broker": {func(context.Context) (*amqp.Connection, error) { return nil, down }, "down", false},
	} {
		conn, err := Connect(t.Context(), tc.dial)
		if conn != nil || err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
		if Permanent(err, nil) != tc.permanent || tc.permanent == errors.Is(err, down) {
			t.Errorf("%s: permanent must be %v: %v", name, tc.permanent, err)
		}
	}
}

func TestPermanent(t *testing.T) {
	for name, tc := range map[string]struct {
		err, before error
		want        bool
	}{
		"refused setting": {fmt.Errorf("dial: %w", setting.New("URL", "", urlForm)), nil, true},
		"refused twice":   {amqp.ErrCredentials, amqp.ErrCredentials, true},
		"refused once":    {amqp.ErrCredentials, nil, false},
		"lost":            {amqp.ErrClosed, amqp.ErrClosed, false},
	} {
		if got := Permanent(tc.err, tc.before); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
