package main

import (
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestDialStops dials something that accepts and never answers, as a broker behind a stuck proxy does.
func TestDialStops(t *testing.T) {
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	b, err := newBroker("amqp://guest:secret@"+l.Addr().String()+"/", "test")
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	began := time.Now()
	if _, err := b.dial(ctx); !errors.Is(err, context.DeadlineExceeded) || exitCode(err) != exitUnreachable || !strings.HasSuffix(err.Error(), "/ is out of reach: the broker does not answer: context deadline exceeded") {
		t.Errorf("%d: %v", exitCode(err), err)
	}
	if took := time.Since(began); took > 3*time.Second {
		t.Errorf("took %v", took)
	}
}

func TestDialErrors(t *testing.T) {
	refusing, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	_ = refusing.Close()
	b, err := newBroker("amqp://guest:secret@"+refusing.Addr().String()+"/", "test")
	if err != nil {
		t.Fatal(err)
	}
	_, err = b.dial(t.Context())
	if exitCode(err) != exitUnreachable || strings.Contains(err.Error(), "secret") || !strings.Contains(err.Error(), "guest:xxxxx@") {
		t.Errorf("%d: %v", exitCode(err), err)
	}
	answers := []struct {
		err  error
		want int
	}{
		{amqp.ErrCredentials, exitDenied},
		{amqp.ErrSASL, exitDenied},
		{&amqp.Error{Code: amqp.NotAllowed, Server: true}, exitDenied},
		{amqp.ErrVhost, exitUnreachable}, // the socket closed
		{errors.New("x509"), exitUnreachable},
	}
	for _, a := range answers {
		if got := exitCode(b.explain(a.err)); got != a.want {
			t.Errorf("%v: exit code %d, want %d", a.err, got, a.want)
		}
	}
}
