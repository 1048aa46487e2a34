package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

func TestExitCode(t *testing.T) {
	store := func(c counter.StoreFault) error { return &counter.StoreError{Fault: c, Err: errors.New("x")} }
	tests := []struct {
		name string
		err  error
		want int
	}{
		{"nothing", nil, 0},
		{"anything", errors.New("x"), 1},
		{"usage", Misusef("x"), 2},
		{"usage, wrapped", fmt.Errorf("x: %w", Misusef("x")), 2},
		{"refused queue", fmt.Errorf("x: %w", &topology.RefusedError{}), 2},
		{"a queue of which nothing is shown",
			&topology.RefusedError{Findings: []topology.Finding{{Code: inspect.CodeDenied}}}, 4},
		{"a bad queue of which not all is shown",
			&topology.RefusedError{Findings: []topology.Finding{{Code: inspect.CodeDenied}, {Code: "x"}}}, 2},
		{"no such queue", fmt.Errorf("x: %w", topology.ErrQueueNotFound), 2},
		{"another number of partitions", fmt.Errorf("x: %w", topology.ErrRefused), 2},
		{"declared otherwise", &amqp.Error{Code: amqp.PreconditionFailed, Server: true}, 2},
		{"no such exchange", &amqp.Error{Code: amqp.NotFound, Reason: "NOT_FOUND - no exchange 'x'", Server: true}, 2},
		{"the queue's node is down", &amqp.Error{Code: amqp.NotFound, Reason: "NOT_FOUND - home node", Server: true}, 69},
		{"publish to no such exchange", &publisher.Error{Err: publisher.ErrRefused, Code: amqp.NotFound}, 2},
		{"no permission", &amqp.Error{Code: amqp.AccessRefused, Server: true}, 4},
		{"the management API denies it", fmt.Errorf("x: %w", broker.ErrDenied), 4},
		{"its URL leads to another server", fmt.Errorf("x: %w", broker.ErrURL), 2},
		{"no such vhost", &amqp.Error{Code: amqp.NotAllowed, Server: true}, 4},
		{"a socket that closed", &amqp.Error{Code: amqp.AccessRefused}, 1},
		{"broker shutting down", &amqp.Error{Code: amqp.ConnectionForced, Server: true}, 69},
		{"connection gone", fmt.Errorf("x: %w", amqp.ErrClosed), 69},
		{"store away", fmt.Errorf("x: %w", store(counter.FaultUnreachable)), 69},
		{"store slow", store(counter.FaultSlow), 69},
		{"store loading", store(counter.FaultLoading), 69},
		{"store says no", store(counter.FaultDenied), 4},
		{"no store at all", store(counter.FaultOtherKind), 2},
		{"a store without tables", store(counter.FaultNotSetUp), 2},
		{"a refused setting", fmt.Errorf("x: %w", setting.New("Prefetch", -1, "more")), 2},
		{"unroutable", &publisher.Error{Err: publisher.ErrUnroutable, Code: amqp.NoRoute}, 1},
		{"may not publish", &publisher.Error{Err: publisher.ErrRefused, Code: amqp.AccessRefused}, 4},
		{"lost while publishing", &publisher.Error{Err: publisher.ErrConnectionLost}, 69},
		{"lost while publishing, cut", &publisher.Error{Err: publisher.ErrConnectionLost, Code: amqp.FrameError}, 69},
		{"lost by the refusal of another message",
			&publisher.Error{Err: publisher.ErrConnectionLost, Code: amqp.PreconditionFailed}, 2},
		{"interrupted", fmt.Errorf("x: %w", context.Canceled), 130},
		{"interrupted, but known to be denied", WithCode(context.Canceled, ExitDenied), 4},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := ExitCode(tt.err); got != tt.want {
				t.Errorf("exit code %d, want %d", got, tt.want)
			}
		})
	}
}

func TestInterruptionIsPlain(t *testing.T) {
	canceled := context.Canceled
	tests := []struct {
		err  error
		want string
	}{
		{canceled, "interrupted"},
		{errors.Join(nil, canceled), "interrupted"},
		{fmt.Errorf("counter: list: %w", &counter.StoreError{Fault: counter.FaultOther, Err: canceled}), "interrupted"},
		{fmt.Errorf("declare queue: %w (declared before it: x)", canceled),
			"interrupted: declare queue: context canceled (declared before it: x)"},
		{WithCode(fmt.Errorf("stdin:5: no confirm yet: %w", canceled), ExitInterrupted),
			"interrupted: stdin:5: no confirm yet: context canceled"},
		{WithCode(fmt.Errorf("denied: %w", canceled), ExitDenied), "denied: context canceled"},
	}
	for _, tt := range tests {
		if got := Complaint(nil, tt.err); got != tt.want {
			t.Errorf("%v: %q, want %q", tt.err, got, tt.want)
		}
	}
}

func TestErrorsArePlain(t *testing.T) {
	for text, want := range map[string]string{
		`deadletter: queue "q": counter: look up: store away`: `queue "q": look up: store away`,
		"topology: declare: denied":                           "declare: denied",
		"the counter: is kept":                                "the counter: is kept",
		"give the URL (Check.Management); or accept the loss (Check.AllowDrop)": "give the URL (--management-url); or " +
			"accept the loss (--allow-drop)",
		"declare it again with x-delivery-limit=1100 and more": "declare it again with x-delivery-limit=1100 " +
			"(strikes declare --delivery-limit 1100 QUEUE) and more",
		"its queues do not exist; declare them: topology.Declare with DelayQueues": "its queues do not exist; " +
			"declare them: " +
			"strikes declare --delay-queues QUEUE",
		"its lanes are blocked: set HoldLanes and Lane to consume it": "its lanes are blocked: set --hold-lanes and " +
			"--lane-header to consume it",
		"ACCESS_REFUSED - write access to exchange 'amq.default' in vhost '/' refused for user 'u'": "ACCESS_REFUSED - " +
			"write access to exchange 'amq.default' in vhost '/' refused for user 'u'; grant it to the user: " +
			"docs/cli.md#permissions lists the permissions of each command",
		"configure access to queue 'q' in vhost '/' refused for user 'u'; grant it to the user: so": "configure access to " +
			"queue 'q' in vhost '/' refused for user 'u'; grant it to the user: so",
		"NOT_ALLOWED - access to vhost 'x' refused for user 'u'": "NOT_ALLOWED - access to vhost 'x' refused for user 'u'",
	} {
		if got := Complaint(nil, errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if again := InFlags(want); again != want {
			t.Errorf("%q became %q", want, again)
		}
	}
}
