package publisher

import (
	"errors"
	"slices"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func message(id string) *outgoing {
	return newOutgoing("x", "k", &amqp.Publishing{MessageId: id})
}

func TestLedgerHoldsOneMessageOfARoute(t *testing.T) {
	l := newLedger()
	first, second, other := message("a"), message("a"), message("b")
	if inTheWay, err := l.add(first); inTheWay != nil || err != nil {
		t.Fatal(inTheWay, err)
	}
	if inTheWay, err := l.add(second); inTheWay != first || err != nil {
		t.Fatalf("the second of one route got in: %v, %v", inTheWay, err)
	}
	if inTheWay, err := l.add(other); inTheWay != nil || err != nil {
		t.Fatal(inTheWay, err)
	}
	l.withdraw(first, ErrClosed)
	<-first.done
	if inTheWay, _ := l.add(second); inTheWay != nil {
		t.Fatal("the second is still held up")
	}
	l.withdraw(second, nil)
	l.close()
	select {
	case <-l.empty:
		t.Error("empty, with a message in it")
	default:
	}
	l.withdraw(other, nil)
	<-l.empty
	if _, err := l.add(message("c")); !errors.Is(err, ErrClosed) {
		t.Errorf("after close: %v", err)
	}
}

func TestLedgerWithdrawsOnlyWhatWasNotSent(t *testing.T) {
	l := newLedger()
	o := message("a")
	l.add(o)
	if !l.take(o) || l.withdraw(o, ErrClosed) {
		t.Fatal("a message being written was withdrawn")
	}
	l.putBack(o)
	if l.settle(o, nil) {
		t.Fatal("a message that was put back was settled as one that may have been sent")
	}
	if !l.withdraw(o, ErrClosed) || l.take(o) {
		t.Fatal("a withdrawn message was taken")
	}
	if l.settle(o, nil) || !errors.Is(o.err, ErrClosed) {
		t.Errorf("settled twice: %v", o.err)
	}
}

func TestLedgerReturns(t *testing.T) {
	for name, tt := range map[string]struct {
		r    amqp.Return
		want error
	}{
		"its own": {amqp.Return{Exchange: "x", RoutingKey: "k", MessageId: "a", ReplyCode: amqp.NoRoute},
			ErrUnroutable},
		"another id":    {amqp.Return{Exchange: "x", RoutingKey: "k", MessageId: "b"}, nil},
		"another key":   {amqp.Return{Exchange: "x", RoutingKey: "l", MessageId: "a"}, nil},
		"of no message": {amqp.Return{}, nil},
	} {
		l := newLedger()
		o := message("a")
		l.add(o)
		l.take(o)
		l.noteReturn(tt.r)
		l.settle(o, nil)
		if !errors.Is(o.err, tt.want) {
			t.Errorf("%s: %v, want %v", name, o.err, tt.want)
		}
	}
}

func TestLedgerOrder(t *testing.T) {
	l := newLedger()
	if !l.oldest().IsZero() {
		t.Error("an empty ledger has an oldest message")
	}
	var want []*outgoing
	for _, id := range []string{"c", "a", "b"} {
		o := message(id)
		l.add(o)
		l.take(o)
		want = append(want, o)
	}
	l.add(message("queued"))
	if got := l.inState(writing); !slices.Equal(got, want) {
		t.Errorf("not in the order of writing: %v", got)
	}
	if got := l.oldest(); got != want[0].since {
		t.Errorf("oldest is %v, want %v", got, want[0].since)
	}
	if n := len(l.inState(queued)); n != 1 {
		t.Errorf("%d queued, want 1", n)
	}
}

func TestOverdue(t *testing.T) {
	at := func(s int) time.Time { return time.Unix(int64(1000+s), 0) }
	tests := []struct {
		name                  string
		now, since, openSince time.Time
		want                  bool
	}{
		{"no message", at(100), time.Time{}, time.Time{}, false},
		{"young", at(9), at(0), time.Time{}, false},
		{"old", at(10), at(0), time.Time{}, true},
		{"blocked since", at(12), at(0), at(3), false},
		{"old after that", at(13), at(0), at(3), true},
		{"blocked before", at(10), at(0), at(-50), true},
	}
	for _, tt := range tests {
		if got := overdue(tt.now, tt.since, tt.openSince, 10*time.Second); got != tt.want {
			t.Errorf("%s: %v, want %v", tt.name, got, tt.want)
		}
	}
}
