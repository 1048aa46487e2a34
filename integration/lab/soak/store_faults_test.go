package soak

import (
	"testing"

	"github.com/strikesmq/strikes/internal/proxy"
)

func TestOddsAreForScripts(t *testing.T) {
	sure := storeFault{odds: proxy.Odds{Lose: 1}}
	for command, want := range map[string]proxy.Part{"EVALSHA": proxy.Reply, "hello": 0} {
		if got := sure.treat(1)([]string{command, "x"}); got.Lose != want {
			t.Errorf("%q: got %+v, want part %d lost", command, got, want)
		}
	}
}
