package console

import (
	"fmt"
	"testing"
)

// TestGuesses: a client that guesses waits, and no other does, however many guess.
func TestGuesses(t *testing.T) {
	g := newGuesses()
	for range guessBurst {
		if g.tooMany("10.0.0.1:1000") {
			t.Fatal("too few wrong tokens are allowed")
		}
		g.wrong("10.0.0.1:1000")
	}
	for remote, want := range map[string]bool{
		"10.0.0.1:1001": true, "[::ffff:10.0.0.1]:7": true, "10.0.0.2:1000": false, "[2001:db8::1]:1": false,
	} {
		if got := g.tooMany(remote); got != want {
			t.Errorf("%s: too many %v, want %v", remote, got, want)
		}
	}
	for i := range guessBurst {
		g.wrong(fmt.Sprintf("[2001:db8::%d]:1", i))
	}
	if !g.tooMany("[2001:db8::ffff]:1") {
		t.Error("an address of the same network may guess on")
	}
	for i := range 3 * mostGuessing {
		g.wrong(fmt.Sprintf("10.%d.%d.1:1", i/250, i%250))
	}
	if len(g.clients) > mostGuessing {
		t.Errorf("%d clients are kept", len(g.clients))
	}
}
