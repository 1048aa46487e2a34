package proxy

import (
	"net"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// TestFaults has each fault meet a connection that was there, and one that is made meanwhile, at a proxy of bytes and
// at one of requests. When it is over, both are closed, and a new one works.
func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		begin, end  func(*Proxy)
		there, late string
	}{
		"Cut":    {(*Proxy).Cut, (*Proxy).Cut, "closed", "hello"},
		"Halve":  {(*Proxy).Halve, (*Proxy).Cut, "silent", "hello"},
		"Mute":   {func(p *Proxy) { p.Mute(true) }, func(p *Proxy) { p.Mute(false) }, "silent", "silent"},
		"Refuse": {func(p *Proxy) { p.Refuse(true) }, func(p *Proxy) { p.Refuse(false) }, "closed", "closed"},
	} {
		for kind, treat := range map[string]map[string]Treatment{"bytes": nil, "requests": {}} {
			t.Run(name+", of "+kind, func(t *testing.T) {
				p, there := through(t, newStoreServer(t), treat)
				expect(t, "there, at first", there, "hello")
				tc.begin(p)
				late := newStoreClient(t, p)
				for range 3 { // a client that writes again learns no more
					expect(t, "there", there, tc.there)
					expect(t, "late", late, tc.late)
				}
				tc.end(p)
				expect(t, "there, afterwards", there, "closed")
				expect(t, "late, afterwards", late, "closed")
				expect(t, "new", newStoreClient(t, p), "hello")
			})
		}
	}
}

// expect sends a request, and compares its reply.
func expect(t *testing.T, which string, c *storeClient, want string) {
	t.Helper()
	within := soon
	if want == "silent" {
		within = silent
	}
	c.send("hello")
	if got := c.reply(within); got != want {
		t.Errorf("%s: got %q, want %q", which, got, want)
	}
}

func TestLatency(t *testing.T) {
	p, c := through(t, newStoreServer(t), nil)
	p.Delay(50 * time.Millisecond)
	began := time.Now()
	expect(t, "slow", c, "hello")
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("there and back took %v, want 100 ms", took)
	}
}

func dial(t *testing.T, p *Proxy) net.Conn {
	t.Helper()
	conn, err := net.Dial("tcp", p.Addr())
	need(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}
