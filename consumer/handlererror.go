package consumer

import (
	"context"
	"errors"
	"fmt"

	"github.com/strikesmq/strikes/counter"
)

// handlerError holds all that decisions and the record need of a handler's error. The error is the user's code: any
// method of it may panic, or end its goroutine. So its methods are called once, where that ends only the attempt.
type handlerError struct {
	steering
	err      error  // as the Observer gets it
	message  string // the result of its Error method; for the log
	text     string // for the record: the message, and the origin of a panic
	panicked bool
}

var endedGoroutine = inspect(errGoexit)

// inspect calls the methods of err that decisions need, and those that an Observer may call. It returns nil for nil.
func inspect(err error) *handlerError {
	if err == nil {
		return nil
	}
	text := err.Error()
	failed := &handlerError{steering: steeringOf(err), err: err, message: text, text: text}
	_ = errors.Is(err, errGoexit) || errors.As(err, new(refusal)) // calls Is and As, as an Observer may
	return failed
}

// panicked makes a failure of a panic's value.
func panicked(v any, stack []byte) *handlerError {
	text := "panic: " + textOf(v)
	return &handlerError{err: &PanicError{v, stack, text}, message: text, text: text + "\n" + origin(string(stack)),
		panicked: true}
}

// textOf returns the text that fmt prints for v, or the type of v if a method of v panics.
func textOf(v any) string {
	text := fmt.Sprintf("a value of type %T that cannot be printed", v)
	apart(func() { text = fmt.Sprint(v) })
	return text
}

// apart calls f in a goroutine of its own, and reports whether f returned.
func apart(f func()) (returned bool) {
	over := make(chan struct{})
	go func() {
		defer close(over)
		defer func() { _ = recover() }() // f calls the user's code
		f()
		returned = true
	}()
	<-over
	return returned
}

// causeOf returns why the attempt with the context ctx failed; empty if it is not counted.
func (p *handlerError) causeOf(ctx context.Context) counter.Cause {
	switch {
	case p.panicked:
		return counter.CausePanicked
	case p.rejected:
		return counter.CauseRejected
	case p.uncounted:
		return ""
	case p.crashed:
		return counter.CauseCrashed
	case context.Cause(ctx) == errDeadline: //nolint:errorlint // errors.Is would call methods of the user's cause
		return counter.CauseTimedOut
	}
	return counter.CauseFailed
}
