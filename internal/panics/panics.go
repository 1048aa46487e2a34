// Package panics carries a panic from the goroutine that had it to the one that waits. There a caller may recover, as
// net/http does. Elsewhere it would end the program, which may be one that only embeds this library.
package panics

import (
	"fmt"
	"runtime/debug"
	"sync/atomic"

	"golang.org/x/sync/errgroup"
)

// First keeps the first panic. The zero value is ready. It is safe for concurrent use.
type First struct {
	what atomic.Pointer[string]
}

// Catch calls f and recovers its panic.
func (p *First) Catch(f func()) {
	defer func() {
		if v := recover(); v != nil {
			text := fmt.Sprintf("%v\n%s", v, debug.Stack())
			p.what.CompareAndSwap(nil, &text)
		}
	}()
	f()
}

// Again panics if a call of Catch did, with its value and stack as one string.
func (p *First) Again() {
	if text := p.what.Load(); text != nil {
		panic(*text)
	}
}

// A Group is an errgroup.Group whose Wait panics if one of its functions did.
type Group struct {
	errgroup.Group
	first First
}

// Go is errgroup.Group.Go.
func (g *Group) Go(f func() error) {
	g.Group.Go(func() (err error) {
		g.first.Catch(func() { err = f() })
		return err
	})
}

// Wait is errgroup.Group.Wait.
func (g *Group) Wait() error {
	err := g.Group.Wait()
	g.first.Again()
	return err
}
