package console

import (
	"errors"
	"fmt"
	"runtime/debug"
)

// errPanicked is the answer of a goroutine that panicked.
var errPanicked = errors.New("the console panicked; its log has the stack")

// guarded calls f and returns errPanicked if it panics. net/http recovers panics of handlers alone: one in another
// goroutine would end the program that the console is embedded in.
func (c *Console) guarded(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.opts.Logger.Error("console: panic", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	f()
	return nil
}

// guardedAsk is guarded for a question.
func guardedAsk[T any](c *Console, ask func() (T, error)) (value T, err error) {
	if panicked := c.guarded(func() { value, err = ask() }); panicked != nil {
		return value, panicked
	}
	return value, err
}
