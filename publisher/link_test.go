package publisher

import (
	"errors"
	"fmt"
	"io"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

func TestPermanent(t *testing.T) {
	denied := fmt.Errorf("dial: %w", amqp.ErrCredentials)
	tests := map[string]struct {
		err, before error
		want        bool
	}{
		"refused connection":    {io.EOF, io.EOF, false},
		"wrong password, once":  {denied, nil, false},
		"wrong password, twice": {denied, denied, true},
		"misuse":                {fmt.Errorf("dial: %w", misuse("no")), nil, true},
	}
	for name, tt := range tests {
		if got := permanent(tt.err, tt.before); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestCleanDropsTheURL(t *testing.T) {
	_, err := amqp.ParseURI("amqp://user:s3cret@host:port/")
	if err == nil || !strings.Contains(err.Error(), "s3cret") {
		t.Fatalf("the library's error shows no password any more, clean can go: %v", err)
	}
	got := clean(fmt.Errorf("dialling: %w", err))
	if strings.Contains(got.Error(), "s3cret") || !permanent(got, nil) {
		t.Errorf("got %v", got)
	}
	if other := errors.New("x"); !errors.Is(clean(other), other) {
		t.Error("another error was changed")
	}
}

func TestAURLThatIsRefusedIsNotDialledAgain(t *testing.T) {
	_, err := BufferedDialer("amqps://user:s3cret@localhost/?cafile=x", amqp.Config{})(t.Context())
	if got := clean(err); !permanent(got, nil) || strings.Contains(got.Error(), "s3cret") || !strings.Contains(got.Error(), `"cafile"`) {
		t.Errorf("got %v", got)
	}
}
