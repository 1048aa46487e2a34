package proxy

import (
	"bufio"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers each line with itself, through a proxy.
func echo(t *testing.T) (*Proxy, net.Conn) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	var tasks sync.WaitGroup
	tasks.Go(func() {
		for {
			conn, err := server.Accept()
			if err != nil {
				return
			}
			tasks.Go(func() {
				defer conn.Close()
				_, _ = io.Copy(conn, conn)
			})
		}
	})
	p, err := New(t.Context(), server.Addr().String())
	need(t, err)
	conn, err := net.Dial("tcp", p.Addr())
	need(t, err)
	t.Cleanup(func() {
		_ = conn.Close()
		p.Close()
		_ = server.Close()
		tasks.Wait()
	})
	if got := ask(t, conn, time.Minute); got != "hello\n" {
		t.Fatalf("through the proxy: %q", got)
	}
	return p, conn
}

// ask returns the reply to a line, or "closed", or "silent" if none comes in time.
func ask(t *testing.T, conn net.Conn, within time.Duration) string {
	t.Helper()
	need(t, conn.SetDeadline(time.Now().Add(within)))
	if _, err := conn.Write([]byte("hello\n")); err != nil {
		return "closed"
	}
	line, err := bufio.NewReader(conn).ReadString('\n')
	switch {
	case errors.Is(err, os.ErrDeadlineExceeded):
		return "silent"
	case err != nil:
		return "closed"
	}
	return line
}

// TestFaults has each fault meet a connection that was there, and one that is made meanwhile. When it is over, both are
// closed, and a new one works.
func TestFaults(t *testing.T) {
	for name, tc := range map[string]struct {
		begin, end  func(*Proxy)
		there, late string
	}{
		"Cut":    {(*Proxy).Cut, (*Proxy).Cut, "closed", "hello\n"},
		"Halve":  {(*Proxy).Halve, (*Proxy).Cut, "silent", "hello\n"},
		"Mute":   {func(p *Proxy) { p.Mute(true) }, func(p *Proxy) { p.Mute(false) }, "silent", "silent"},
		"Block":  {func(p *Proxy) { p.Block(true) }, func(p *Proxy) { p.Block(false) }, "silent", "silent"},
		"Refuse": {func(p *Proxy) { p.Refuse(true) }, func(p *Proxy) { p.Refuse(false) }, "closed", "closed"},
	} {
		t.Run(name, func(t *testing.T) {
			p, there := echo(t)
			tc.begin(p)
			late := dial(t, p)
			for range 3 { // a client that writes again learns no more
				expect(t, "there", there, tc.there)
				expect(t, "late", late, tc.late)
			}
			tc.end(p)
			expect(t, "there, afterwards", there, "closed")
			expect(t, "late, afterwards", late, "closed")
			expect(t, "new", dial(t, p), "hello\n")
		})
	}
}

func expect(t *testing.T, which string, conn net.Conn, want string) {
	t.Helper()
	within := time.Minute
	if want == "silent" {
		within = 50 * time.Millisecond
	}
	if got := ask(t, conn, within); got != want {
		t.Errorf("%s: got %q, want %q", which, got, want)
	}
}

func TestLatency(t *testing.T) {
	p, conn := echo(t)
	p.Delay(50 * time.Millisecond)
	began := time.Now()
	if got := ask(t, conn, time.Minute); got != "hello\n" {
		t.Errorf("slow: %q", got)
	}
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

// TestServersInTurn has connections lead to two servers in turn, and to the other one alone once one is gone.
func TestServersInTurn(t *testing.T) {
	servers := make([]net.Listener, 2)
	for i := range servers {
		var err error
		servers[i], err = net.Listen("tcp", "127.0.0.1:0")
		need(t, err)
		defer servers[i].Close()
	}
	p, err := New(t.Context(), servers[0].Addr().String(), servers[1].Addr().String())
	need(t, err)
	defer p.Close()
	for i, want := range []int{0, 1, 0, 1, 1} {
		if i == 4 {
			need(t, servers[0].Close())
		}
		conn, err := net.Dial("tcp", p.Addr())
		need(t, err)
		defer conn.Close()
		need(t, servers[want].(*net.TCPListener).SetDeadline(time.Now().Add(time.Minute)))
		server, err := servers[want].Accept()
		if err != nil {
			t.Fatalf("connection %d did not reach server %d: %v", i+1, want, err)
		}
		defer server.Close()
	}
}
