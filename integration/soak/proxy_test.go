package main

import (
	"bufio"
	"context"
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// echo answers each line with itself, through a proxy.
func echo(t *testing.T) (*proxy, net.Conn) {
	t.Helper()
	server, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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
	p, err := newProxy(t.Context(), server.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	conn, err := net.Dial("tcp", p.addr())
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = conn.Close()
		p.close()
		_ = server.Close()
		tasks.Wait()
	})
	if got := ask(t, conn, 10*time.Second); got != "hello\n" {
		t.Fatalf("through the proxy: %q", got)
	}
	return p, conn
}

// ask returns what comes back of a line, or "closed", or "silent" if nothing does in time.
func ask(t *testing.T, conn net.Conn, within time.Duration) string {
	t.Helper()
	if err := conn.SetDeadline(time.Now().Add(within)); err != nil {
		t.Fatal(err)
	}
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

func TestCut(t *testing.T) {
	p, conn := echo(t)
	p.cut()
	if got := ask(t, conn, 10*time.Second); got != "closed" {
		t.Errorf("after a cut: %q", got)
	}
}

func TestHalfOpenIsNotNoticed(t *testing.T) {
	p, conn := echo(t)
	p.halve()
	for range 3 {
		if got := ask(t, conn, 50*time.Millisecond); got != "silent" {
			t.Errorf("half open: %q", got)
		}
	}
	p.cut()
	if got := ask(t, conn, 10*time.Second); got != "closed" {
		t.Errorf("after the cut: %q", got)
	}
}

func TestMuteDropsReplies(t *testing.T) {
	p, conn := echo(t)
	p.mute.Store(true)
	if got := ask(t, conn, 50*time.Millisecond); got != "silent" {
		t.Errorf("mute: %q", got)
	}
}

func TestLatency(t *testing.T) {
	p, conn := echo(t)
	p.latency.Store(int64(50 * time.Millisecond))
	began := time.Now()
	if got := ask(t, conn, 10*time.Second); got != "hello\n" {
		t.Errorf("slow: %q", got)
	}
	if took := time.Since(began); took < 100*time.Millisecond {
		t.Errorf("there and back took %v, want 100 ms", took)
	}
}

func TestPauseEndsWithItsContext(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if pause(ctx, time.Hour) || !pause(t.Context(), 0) {
		t.Error("pause does not tell its end from its context's")
	}
}
