package cli

import (
	"context"
	"os"
	"os/signal"
	"syscall"
	"time"
)

// SameSignal is the time within which two signals are one: timeout(1) sends its own to the process, and then to its
// group.
const SameSignal = 200 * time.Millisecond

// Interruptible returns a context that ends with the first SIGINT or SIGTERM, and a channel that closes with the
// second. A third one has its usual effect, should the second hang.
func Interruptible(parent context.Context) (context.Context, <-chan struct{}) {
	ctx, cancel := context.WithCancel(parent)
	now := make(chan struct{})
	signals := make(chan os.Signal, 2)
	signal.Notify(signals, os.Interrupt, syscall.SIGTERM)
	go func() { // for as long as the process lives
		twoOf(signals, cancel)
		signal.Stop(signals)
		close(now)
	}()
	return ctx, now
}

// twoOf calls first at the first signal, and returns at the second.
func twoOf(signals <-chan os.Signal, first func()) {
	<-signals
	first()
	for began := time.Now(); time.Since(began) < SameSignal; {
		<-signals
	}
}
