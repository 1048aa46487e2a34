// Package panics carries a panic from the goroutine that had it to the one that waits. There a caller may recover, as
// net/http does. Elsewhere it would end the program, which may be one that only embeds this library.
package panics

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// A Group is an errgroup.Group whose Wait panics if one of its functions did, with the value and the stack of the first
// panic as one string.
type Group struct {
	errgroup.Group
	first atomic.Pointer[string]
}

// Go is errgroup.Group.Go.
func (g *Group) Go(f func() error) {
	g.Group.Go(func() error {
		defer func() {
			if v := recover(); v != nil {
				text := fmt.Sprintf("%v\n%s", v, debug.Stack())
				g.first.CompareAndSwap(nil, &text)
			}
		}()
		return f()
	})
}

// Wait is errgroup.Group.Wait.
func (g *Group) Wait() error {
	err := g.Group.Wait()
	if text := g.first.Load(); text != nil {
		panic(*text)
	}
	return err
}
