package broker

import (
	"io"
	"net"
	"runtime"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// gathered returns a connection that gathers, its socket, and the peer of the socket.
func gathered(t *testing.T) (*amqp.Connection, net.Conn, net.Conn) {
	t.Helper()
	socket, peer := net.Pipe()
	t.Cleanup(func() {
		_ = socket.Close()
		_ = peer.Close()
	})
	conn, gathering := new(amqp.Connection), &gatheringSocket{Conn: socket}
	gathers(conn, gathering)
	return conn, gathering, peer
}

func TestTogetherWritesOnce(t *testing.T) {
	conn, socket, peer := gathered(t)
	var sent sync.WaitGroup
	sent.Go(func() {
		err := Together(conn, func() {
			for _, frame := range []string{"one ", "two ", "three"} {
				if n, err := socket.Write([]byte(frame)); n != len(frame) || err != nil {
					t.Errorf("Write: %d, %v", n, err)
				}
			}
		})
		if err != nil {
			t.Error(err)
		}
		if err := Together(conn, func() {}); err != nil { // it writes nothing
			t.Error(err)
		}
		_, _ = socket.Write([]byte("four"))
	})
	for _, want := range []string{"one two three", "four"} {
		b := make([]byte, 100)
		if n, err := peer.Read(b); string(b[:n]) != want || err != nil { // a pipe has the bytes of one Write
			t.Errorf("read %q, %v, want %q", b[:n], err, want)
		}
	}
	sent.Wait()
}

// TestTogetherAtTheSameTime has two goroutines gather on one connection. Bytes are in the kernel once the call that
// wrote them returns, while the other still gathers.
func TestTogetherAtTheSameTime(t *testing.T) {
	conn, socket, peer := gathered(t)
	var all sync.WaitGroup
	inner, outer := make(chan error), make(chan struct{})
	all.Go(func() {
		err := Together(conn, func() {
			_, _ = socket.Write([]byte("outer "))
			go func() { inner <- Together(conn, func() { _, _ = socket.Write([]byte("inner")) }) }()
			<-outer
		})
		if err != nil {
			t.Error(err)
		}
	})
	b := make([]byte, 100)
	if n, err := peer.Read(b); string(b[:n]) != "outer inner" || err != nil {
		t.Errorf("read %q, %v", b[:n], err)
	}
	if err := <-inner; err != nil {
		t.Error(err)
	}
	close(outer)
	all.Wait()
}

// TestTogetherFails: amqp091-go took the frames for written, so the socket is closed, and its reader ends.
func TestTogetherFails(t *testing.T) {
	conn, socket, peer := gathered(t)
	_ = peer.Close()
	err := Together(conn, func() {
		_, _ = socket.Write([]byte("lost"))
		if err := Together(conn, func() { _, _ = socket.Write([]byte("too")) }); err == nil { // it writes all
			t.Error("no error, although nothing was written")
		}
	})
	if err == nil {
		t.Error("no error, although another call has failed to write the bytes")
	}
	if _, err := socket.Read(make([]byte, 1)); err != io.ErrClosedPipe { //nolint:errorlint // of a closed pipe
		t.Errorf("reading then: %v, want a closed socket", err)
	}
}

// TestTogetherForgets: the entry of a connection goes with the connection.
func TestTogetherForgets(t *testing.T) {
	conn, _, _ := gathered(t)
	entries := func() (n int) {
		sockets.Range(func(any, any) bool {
			n++
			return true
		})
		return n
	}
	if entries() == 0 {
		t.Fatal("no connection gathers")
	}
	runtime.KeepAlive(conn)
	for until := time.Now().Add(10 * time.Second); entries() > 0; {
		if time.Now().After(until) {
			t.Fatal("the connections are gone, and their sockets are kept")
		}
		runtime.GC()
	}
}

// TestTogetherElsewhere: on a connection of another program's dial, each frame goes on its own.
func TestTogetherElsewhere(t *testing.T) {
	called := false
	if err := Together(new(amqp.Connection), func() { called = true }); err != nil || !called {
		t.Errorf("called %v, error %v", called, err)
	}
}
