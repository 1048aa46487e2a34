package cli

import (
	"os"
	"testing"
	"testing/synctest"
	"time"
)

func TestSignalsAtOnceAreOne(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		signals := make(chan os.Signal)
		first, both := make(chan struct{}), make(chan struct{})
		go func() {
			twoOf(signals, func() { close(first) })
			close(both)
		}()
		signals <- os.Interrupt
		<-first
		for range 2 {
			time.Sleep(SameSignal / 3)
			signals <- os.Interrupt
		}
		synctest.Wait()
		select {
		case <-both:
			t.Error("signals that came at once are two")
		default:
		}
		time.Sleep(SameSignal)
		signals <- os.Interrupt
		<-both
	})
}
