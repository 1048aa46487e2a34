package consumer

import (
	"context"
	"errors"
	"fmt"
	"time"
)

// plain is all that is decided by and recorded of the error of a run. The error belongs to the user: any method of it may panic,
// or end its goroutine. So it is asked once, where that ends no more than the run.
type plain struct {
	err      error         // as the Observer gets it
	text     string        // for the record: of a panic also where it came from
	rejected bool          // wrapped by Reject
	panicked bool          // a PanicError
	waits    bool          // wrapped by RetryAfter
	wait     time.Duration // if it waits
}

var endedGoroutine = plainOf(errGoexit)

// plainOf asks err for all that is decided by it, and for what an Observer may ask; nil for nil.
func plainOf(err error) *plain {
	if err == nil {
		return nil
	}
	var p *PanicError
	var r *rejection
	var d *delayed
	said := &plain{err: err, text: err.Error(), rejected: errors.As(err, &r), panicked: errors.As(err, &p), waits: errors.As(err, &d)}
	if said.panicked {
		said.text += "\n" + origin(string(p.Stack))
	}
	if said.waits {
		said.wait = d.wait
	}
	_ = errors.Is(err, errGoexit) // calls Is, of which nothing here depends
	return said
}

// panicked makes a failure of what was given to panic. A value that cannot be asked is not passed on as an error.
func panicked(v any, stack []byte) *plain {
	e := &PanicError{Value: v, Stack: stack, text: "panic: " + textOf(v)}
	var said *plain
	if apart(func() { said = plainOf(e) }) {
		return said
	}
	e = &PanicError{Value: v, Stack: stack, text: e.text, opaque: true}
	return plainOf(e)
}

// textOf is what fmt prints of v, if v's methods let it.
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
		defer func() { _ = recover() }() // what f asks is the user's
		f()
		returned = true
	}()
	<-over
	return returned
}

// causeOf is why a run failed that ctx was the context of.
func (p *plain) causeOf(ctx context.Context) Cause {
	switch {
	case p.panicked:
		return Panicked
	case p.rejected:
		return Rejected
	case context.Cause(ctx) == errDeadline: //nolint:errorlint // a cause of the user's is not to be asked
		return TimedOut
	}
	return Failed
}
