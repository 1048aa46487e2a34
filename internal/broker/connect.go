package broker

import (
	"context"
	"errors"
	"net/url"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/setting"
)

// closeTimeout is how long the broker may take to answer connection.close.
const closeTimeout = time.Second

// errURL refuses a URL that cannot be parsed. It quotes no part of the URL, which may hold a password.
var errURL = &setting.FieldError{Field: "URL", Value: "one that cannot be parsed", Want: urlForm}

// Connect calls a caller's dial function and checks what it returns. The error is a *setting.FieldError for a function
// or URL that will fail again. It contains no URL.
func Connect(ctx context.Context, dial func(context.Context) (*amqp.Connection, error)) (*amqp.Connection, error) {
	began := time.Now()
	conn, err := dial(ctx)
	err = cutShort(err, time.Since(began))
	var parsing *url.Error
	switch {
	case errors.As(err, &parsing): // it quotes the URL with the password
		err = errURL
	case err == nil && conn == nil:
		return nil, &setting.FieldError{Field: "dial", Value: "neither a connection nor an error",
			Want: "a function that returns one of them"}
	case err == nil && ctx.Err() != nil:
		err = ctx.Err()
	case err == nil && conn.Config.Recovery != nil:
		err = &setting.FieldError{Field: "amqp.Config.Recovery", Value: "a value: automatic recovery restarts delivery " +
			"tags and confirms", Want: "nil"}
	}
	if err != nil && conn != nil { // amqp.Dial returns the connection of a failed handshake
		HangUp(conn)
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// HangUp closes a connection within a second. It returns no error: that would only say that the connection is lost
// already.
func HangUp(conn *amqp.Connection) { _ = conn.CloseDeadline(time.Now().Add(closeTimeout)) }
