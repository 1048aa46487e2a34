package topology

import (
	"context"
	"errors"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
)

func TestSpecArguments(t *testing.T) {
	tests := []struct {
		name  string
		spec  Spec
		queue amqp.Table
	}{
		{
			"quorum", Spec{Queue: "q"},
			amqp.Table{
				"x-queue-type": "quorum", "x-dead-letter-exchange": "q.dlx", "x-delivery-limit": int64(1000),
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish",
			},
		},
		{
			"quorum, told otherwise", Spec{Queue: "q", DeadLetterExchange: "x", DeliveryLimit: 200, SingleActiveConsumer: true},
			amqp.Table{
				"x-queue-type": "quorum", "x-dead-letter-exchange": "x", "x-delivery-limit": int64(200),
				"x-dead-letter-strategy": "at-least-once", "x-overflow": "reject-publish", "x-single-active-consumer": true,
			},
		},
		{
			"classic", Spec{Queue: "q", Type: Classic, SingleActiveConsumer: true},
			amqp.Table{"x-queue-type": "classic", "x-dead-letter-exchange": "q.dlx", "x-single-active-consumer": true},
		},
	}
	for _, tt := range tests {
		s := tt.spec.withDefaults()
		if err := s.Validate(); err != nil {
			t.Errorf("%s: %v", tt.name, err)
		}
		if diff := cmp.Diff(tt.queue, s.arguments()); diff != "" {
			t.Errorf("%s: %s", tt.name, diff)
		}
	}
}

func TestSpecValidate(t *testing.T) {
	tests := []struct {
		spec Spec
		want string // a FieldError says "must be"
	}{
		{Spec{}, `Queue must be the name of the queue, got ""`},
		{Spec{Queue: "q", Type: "stream"}, `Type must be "quorum" or "classic", got "stream"`},
		{Spec{Queue: "q", DelayQueues: true, SingleActiveConsumer: true},
			`DelayQueues must be false with SingleActiveConsumer`},
		{Spec{Queue: "q", DeadLetterQueue: "q"}, `DeadLetterQueue must be another queue`},
		{Spec{Queue: "q", Partitions: 2, DeadLetterExchange: "q"}, `DeadLetterExchange must be another exchange`},
		{Spec{Queue: "q", Partitions: 2, DeadLetterExchange: "q.hash2"}, `DeadLetterExchange must be another exchange`},
		{Spec{Queue: "q", Partitions: 2, DeadLetterQueue: "q.1"}, `DeadLetterQueue must be another queue`},
		{Spec{Queue: "q", DeliveryLimit: -1}, "DeliveryLimit must be well above"},
		{Spec{Queue: "q", Type: Classic, DeliveryLimit: 5}, "DeliveryLimit must be 0 for a classic queue"},
		{Spec{Queue: strings.Repeat("q", 252)}, "256 bytes"},
		{Spec{Queue: strings.Repeat("q", 243), Partitions: 2}, "256 bytes"}, // of the lock
		{Spec{Queue: "a\nb"}, "line break"},
		{Spec{Queue: "a\xff"}, "not UTF-8"},
		{Spec{Queue: "q", DeadLetterExchange: "\xffa"}, "not UTF-8"},
		{Spec{Queue: "strikes.delay.24h"}, "choose another"},
		{Spec{Queue: "q", DelayQueues: true, DeadLetterExchange: "strikes.delay.1m"}, "choose another"},
		{Spec{Queue: "q", DeadLetterExchange: "strikes.delay"}, "choose another"},
		{Spec{Queue: "q", DeadLetterQueue: "strikes.delay.lost"}, "choose another"},
	}
	for _, tt := range tests {
		// A nil connection: nothing may be asked of the broker.
		err := Declare(context.Background(), nil, tt.spec)
		if err == nil || !strings.HasPrefix(err.Error(), "topology: ") || !strings.Contains(err.Error(), tt.want) {
			t.Errorf("%+v: got %v, want an error with %q", tt.spec, err, tt.want)
		}
		if field, _, is := strings.Cut(tt.want, " must be "); is {
			if refused := new(FieldError); !errors.As(err, &refused) || refused.Field != field {
				t.Errorf("%+v: %v is no FieldError of %s", tt.spec, err, field)
			}
		}
	}
	longest := Spec{Queue: strings.Repeat("q", 251)}
	if err := longest.Validate(); err != nil {
		t.Errorf("the longest name: %v", err)
	}
}

// TestSteps: the dead-letter route must be complete before there is a queue to reject from.
func TestSteps(t *testing.T) {
	want := []string{`exchange "q.dlx"`, `queue "q.dlq"`, `binding of queue "q.dlq" to exchange "q.dlx"`, `queue "q"`}
	var got []string
	for _, s := range steps(Spec{Queue: "q"}.withDefaults()) {
		got = append(got, s.what)
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Error(diff)
	}
}

func TestDifference(t *testing.T) {
	for reason, want := range map[string]string{
		"'type' for exchange 'it's' in vhost '/': received 'topic' but current is 'direct'": "type 'direct', not 'topic'",
		"'durable' for exchange 'x' in vhost '/': received 'true' but current is 'false'":   "durable 'false', not 'true'",
		"'alternate-exchange' for exchange 'x' in vhost '/': received none but current is 'a'": "alternate-" +
			"exchange 'a', not none",
		"'x-delivery-limit' for queue 'q' in vhost '/': received the value '1000' of type 'long' but current is the " +
			"value '5' of type 'signedint'": "x-delivery-limit '5', not '1000'",
		"'type' for exchange 'xxx...": "other properties",
		"":                            "other properties",
	} {
		if want = "it exists with " + want; reason != "" {
			reason = "PRECONDITION_FAILED - inequivalent arg " + reason
		}
		if got := difference(reason); got != want {
			t.Errorf("%s:\n got %s\nwant %s", reason, got, want)
		}
	}
}

// TestInsist: while another process declares a queue, RabbitMQ 4.3.6 may say that its node is down.
func TestInsist(t *testing.T) {
	away := &amqp.Error{Code: amqp.NotFound, Reason: "NOT_FOUND - home node 'a' of durable queue 'q' in vhost '/' is down"}
	missing := &amqp.Error{Code: amqp.NotFound, Reason: "NOT_FOUND - no exchange 'x' in vhost '/'"}
	for name, tc := range map[string]struct {
		answers     []error // the last one stays
		stop        time.Duration
		want        error
		least, most time.Duration
	}{
		"declared by then":  {answers: []error{away, away, nil}, most: time.Second},
		"the node is down":  {answers: []error{away}, want: away, least: awayWait, most: awayWait + time.Second},
		"another error":     {answers: []error{missing}, want: missing},
		"the caller leaves": {answers: []error{away}, stop: time.Second, want: away, least: time.Second, most: time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				ctx, cancel := context.WithCancel(t.Context())
				defer cancel()
				if tc.stop > 0 {
					time.AfterFunc(tc.stop, cancel)
				}
				began, n := time.Now(), 0
				err := insist(ctx, func() error {
					n++
					return tc.answers[min(n, len(tc.answers))-1]
				})
				if took := time.Since(began); !errors.Is(err, tc.want) || took < tc.least || took > tc.most {
					t.Errorf("%v after %v and %d declarations", err, took, n)
				}
			})
		})
	}
}
