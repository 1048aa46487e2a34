package publisher

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// piped is a bufferedConn and its peer. Bytes that the peer has not read are not taken, because there is no kernel in
// between.
func piped(t *testing.T) (*bufferedConn, net.Conn) {
	t.Helper()
	socket, peer := net.Pipe()
	g := buffered(socket)
	t.Cleanup(func() {
		_ = peer.Close()
		_ = g.Close()
	})
	return g, peer
}

func write(t *testing.T, g *bufferedConn, s string) {
	t.Helper()
	if n, err := g.Write([]byte(s)); n != len(s) || err != nil {
		t.Fatalf("Write(%.20q): %d, %v", s, n, err)
	}
}

// read is one Read, which a pipe answers with bytes of one Write.
func read(t *testing.T, peer net.Conn, most int) string {
	t.Helper()
	b := make([]byte, most)
	n, err := peer.Read(b)
	need(t, err)
	return string(b[:n])
}

func TestWritesOfOneMomentGoTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, peer := piped(t)
		write(t, g, "first ")
		synctest.Wait() // it is on its way
		for _, s := range []string{"second ", "third ", "fourth"} {
			write(t, g, s)
		}
		if got := read(t, peer, 100); got != "first " {
			t.Errorf("sent %q at first", got)
		}
		if got := read(t, peer, 100); got != "second third fourth" {
			t.Errorf("sent %q then, want all that was written meanwhile", got)
		}
	})
}

// TestBrokersPushback holds that a broker which reads no more, to slow publishers down, stops them.
func TestBrokersPushback(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, peer := piped(t)
		const size, writes = 4 << 10, 100
		written := 1
		write(t, g, strings.Repeat("x", size))
		synctest.Wait() // it is on its way
		go func() {
			for range writes - 1 {
				if _, err := g.Write(make([]byte, size)); err != nil {
					return
				}
				written++
			}
		}()
		synctest.Wait()
		if most := 1 + bufferSize/size; written != most {
			t.Fatalf("%d writes returned while the peer read nothing, want %d", written, most)
		}
		if n, err := io.CopyN(io.Discard, peer, size*writes); err != nil {
			t.Fatalf("after %d bytes: %v", n, err)
		}
		synctest.Wait()
		if written != writes {
			t.Errorf("%d of %d writes returned although the peer read everything", written, writes)
		}
	})
}

func TestSocketFails(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, peer := piped(t)
		write(t, g, "lost")
		synctest.Wait() // it is on its way
		write(t, g, strings.Repeat("x", bufferSize))
		blocked := make(chan error)
		go func() {
			_, err := g.Write([]byte("y"))
			blocked <- err
		}()
		synctest.Wait()
		_ = peer.Close()
		if err := <-blocked; !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a Write that waited for room: %v", err)
		}
		if _, err := g.Write([]byte("later")); !errors.Is(err, io.ErrClosedPipe) {
			t.Errorf("a later Write: %v", err)
		}
	})
}

// deaf takes nothing, and hears nothing until it is closed.
type deaf struct {
	net.Conn
	closed chan struct{}
	once   sync.Once
}

func (*deaf) Write([]byte) (int, error)  { return 0, io.ErrShortWrite }
func (d *deaf) Read([]byte) (int, error) { <-d.closed; return 0, net.ErrClosed }
func (d *deaf) Close() error             { d.once.Do(func() { close(d.closed) }); return nil }

// TestReaderHearsOfAFailedWrite shows that no caller waits for a reply to a write that failed.
func TestReaderHearsOfAFailedWrite(t *testing.T) {
	g := buffered(&deaf{closed: make(chan struct{})})
	write(t, g, "lost")
	if _, err := g.Read(nil); !errors.Is(err, net.ErrClosed) {
		t.Error(err)
	}
	if err := g.Close(); err != nil {
		t.Error(err)
	}
}

func TestCloseSendsWhatIsInLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, peer := piped(t)
		write(t, g, "one ")
		synctest.Wait()
		write(t, g, "two ")
		write(t, g, "three")
		go func() { _ = g.Close() }()
		synctest.Wait()
		if _, err := g.Write([]byte("four")); !errors.Is(err, net.ErrClosed) {
			t.Errorf("a Write while it closes: %v", err)
		}
		if got, err := io.ReadAll(peer); string(got) != "one two three" || err != nil {
			t.Errorf("the peer got %q, %v", got, err)
		}
		if err := g.Close(); err != nil {
			t.Errorf("a second Close: %v", err)
		}
	})
}

func TestCloseDoesNotWaitForAPeerThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		g, _ := piped(t)
		write(t, g, "unread")
		began := time.Now()
		_ = g.Close()
		if took := time.Since(began); took != lastWrite {
			t.Errorf("took %v, want %v", took, lastWrite)
		}
	})
}

// TestEachWriteStaysWhole has many goroutines write concurrently, to a real socket.
func TestEachWriteStaysWhole(t *testing.T) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	defer listener.Close()
	got := make(chan []byte)
	go func() {
		defer close(got)
		peer, err := listener.Accept()
		if err != nil {
			return
		}
		defer peer.Close()
		all, _ := io.ReadAll(peer)
		got <- all
	}()
	socket, err := net.Dial("tcp", listener.Addr().String())
	need(t, err)
	g := buffered(socket)
	const writers, writes = 16, 500
	var all sync.WaitGroup
	for w := range writers {
		all.Go(func() {
			for n := range writes {
				line := fmt.Sprintf("%d %d %s\n", w, n, strings.Repeat("x", n%300))
				if _, err := g.Write([]byte(line)); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}
	all.Wait()
	if err := g.Close(); err != nil {
		t.Error(err)
	}
	next := make([]int, writers)
	for line := range bytes.Lines(<-got) {
		var w, n int
		var rest string
		if _, err := fmt.Sscanf(string(line), "%d %d %s", &w, &n, &rest); n%300 > 0 && err != nil {
			t.Fatalf("%q: %v", line, err)
		}
		if n != next[w] || len(rest) != n%300 {
			t.Fatalf("%q came, want write %d of %d, whole", line, next[w], w)
		}
		next[w]++
	}
	for w, n := range next {
		if n != writes {
			t.Errorf("%d of %d writes of writer %d came", n, writes, w)
		}
	}
}
