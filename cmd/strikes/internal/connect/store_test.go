package connect

import (
	"strings"
	"sync/atomic"
	"testing"

	"github.com/alicebob/miniredis/v2"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/proxy"
)

// TestOpenStoreThroughALostReply loses each reply of a start in turn, by silence and by a connection that ends.
func TestOpenStoreThroughALostReply(t *testing.T) {
	server := miniredis.RunT(t)
	lose := func(number int64, how proxy.Treatment) (requests int64) {
		t.Helper()
		var n atomic.Int64
		p, err := proxy.NewStore(t.Context(), server.Addr(), func([]string) proxy.Treatment {
			if n.Add(1) == number {
				return how
			}
			return proxy.Treatment{}
		})
		need(t, err)
		defer p.Close()
		store, err := OpenStore(t.Context(), "redis://"+p.Addr(), "", "--store-url")
		if err != nil {
			t.Errorf("without the reply to request %d (%+v): %v", number, how, err)
			return n.Load()
		}
		_ = store.Close()
		return n.Load()
	}
	all := lose(0, proxy.Treatment{})
	if all < 2 {
		t.Fatalf("a start sends %d requests", all)
	}
	for number := int64(1); number <= all; number++ {
		lose(number, proxy.Treatment{Lose: proxy.Reply})
		lose(number, proxy.Treatment{Reset: proxy.Reply})
	}
}

// TestOpenStoreWithoutAStore holds that a command does not wait for a store at an address where nothing listens.
func TestOpenStoreWithoutAStore(t *testing.T) {
	var unset Flags
	unset.AddStore(new(cobra.Command))
	_, err := OpenStore(t.Context(), "redis://127.0.0.1:1", "", unset.called("store-url"))
	if !strings.HasSuffix(err.Error(), "; this is the default; name another store with "+givenAs[kindStore]) {
		t.Error(err)
	}
	if cli.ExitCode(err) != cli.ExitUnreachable || replyLost(err) {
		t.Errorf("exit %d, asked again: %v: %v", cli.ExitCode(err), replyLost(err), err)
	}
}

// TestPatient: an operator's command waits for a busy store, unless the URL says how long.
func TestPatient(t *testing.T) {
	for raw, want := range map[string]string{
		"redis://h:1":                    "redis://h:1?read_timeout=2s&write_timeout=2s",
		"redis://h:1?read_timeout=1s":    "redis://h:1?read_timeout=1s&write_timeout=2s",
		"redis://h:1/2?write_timeout=1s": "redis://h:1/2?read_timeout=2s&write_timeout=1s",
		"postgres://h/d":                 "postgres://h/d",
		"mariadb://h/d":                  "mariadb://h/d",
	} {
		if got := Patient(raw); got != want {
			t.Errorf("Patient(%q) = %q, want %q", raw, got, want)
		}
	}
}
