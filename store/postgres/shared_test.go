package postgres

import (
	"encoding/binary"
	"io"
	"net"
	"net/url"
	"sync"
	"testing"

	"github.com/strikesmq/strikes/counter"
)

// TestSharedSession: a pooler gives the session of a client that has left to the next one, with the server's own
// process number and the statements that the first one prepared. The next Store goes on without names.
func TestSharedSession(t *testing.T) {
	u, err := url.Parse(migrated(t))
	if err != nil {
		t.Fatal(err)
	}
	u.Host = poolOfOne(t, u.Host)
	for n := range 3 {
		s, err := Open(u.String()+"&pool_max_conns=1", nil)
		if err != nil {
			t.Fatal(err)
		}
		for range 2 {
			_, err = s.Save(t.Context(), counter.Queue{Name: "q"},
				counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "a", Any: true}}})
			if err != nil || s.unnamed.Load() != (n > 0) {
				t.Errorf("client %d: %v, unnamed: %v", n+1, err, s.unnamed.Load())
			}
		}
		_ = s.Close()
	}
}

// poolOfOne serves one client after the other on one session of the server at host, and returns its own address.
func poolOfOne(t *testing.T, host string) string {
	t.Helper()
	server, err := net.Dial("tcp", host)
	if err != nil {
		t.Fatal(err)
	}
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var mu sync.Mutex // of client and hello
	var client net.Conn
	var hello []byte // the server's replies up to the first that it is ready
	greeted := make(chan struct{})
	var serving sync.WaitGroup
	t.Cleanup(func() {
		_, _ = listener.Close(), server.Close()
		serving.Wait()
	})
	serving.Go(func() {
		for begins := true; ; {
			m := readMessage(server, 1)
			if m == nil {
				return
			}
			mu.Lock()
			if client != nil {
				_, _ = client.Write(m)
			}
			if begins {
				hello = append(hello, m...)
			}
			if begins && m[0] == 'Z' {
				begins = false
				close(greeted)
			}
			mu.Unlock()
		}
	})
	serving.Go(func() {
		for first := true; ; {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			startup := readMessage(conn, 0)
			mu.Lock()
			if client = conn; !first {
				_, _ = conn.Write(hello)
			}
			mu.Unlock()
			if first {
				_, _ = server.Write(startup)
				<-greeted
				first = false
			}
			for m := readMessage(conn, 1); m != nil && m[0] != 'X'; m = readMessage(conn, 1) {
				_, _ = server.Write(m)
			}
			mu.Lock()
			client = nil
			mu.Unlock()
			_ = conn.Close()
		}
	})
	return listener.Addr().String()
}

// readMessage reads a message of PostgreSQL's protocol whose kind has so many bytes; nil at the end.
func readMessage(r io.Reader, kind int) []byte {
	head := make([]byte, kind+4)
	if _, err := io.ReadFull(r, head); err != nil {
		return nil
	}
	rest := make([]byte, binary.BigEndian.Uint32(head[kind:])-4)
	if _, err := io.ReadFull(r, rest); err != nil {
		return nil
	}
	return append(head, rest...)
}
