package cli

import (
	"context"
	"errors"
	"fmt"
	"testing"

	"github.com/strikesmq/strikes/counter"
)

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
			"(strikes declare --delivery-limit 1100) and more",
		"its queues do not exist; declare them: topology.Declare with DelayQueues": "its queues do not exist; " +
			"declare them: " +
			"strikes declare --delay-queues QUEUE",
		"its lanes are blocked: set HoldLanes and Lane to consume it": "its lanes are blocked: set --hold-lanes and " +
			"--lane-header to consume it",
	} {
		if got := Complaint(nil, errors.New(text)); got != want {
			t.Errorf("%q, want %q", got, want)
		}
		if again := InFlags(want); again != want {
			t.Errorf("%q became %q", want, again)
		}
	}
}
