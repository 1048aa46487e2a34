package broker

import (
	"errors"
	"net"
	"runtime"
	"sync"
	"weak"

	amqp "github.com/rabbitmq/amqp091-go"
)

// sockets maps the weak pointer of each connection that can gather to its *gatheringSocket.
var sockets sync.Map

// gathers keeps the socket of a connection in sockets until the connection is garbage.
func gathers(conn *amqp.Connection, socket *gatheringSocket) {
	key := weak.Make(conn)
	sockets.Store(key, socket)
	runtime.AddCleanup(conn, func(key weak.Pointer[amqp.Connection]) { sockets.Delete(key) }, key)
}

// Together calls send, and then writes the frames that send has sent on conn with one system call, or with one for
// each mostGathered bytes. amqp091-go makes one for each frame. When Together returns, the frames are in the kernel, or
// the error says that they may be lost. If another program dialled conn, each frame is written as send sends it. Any
// number of goroutines may call Together.
func Together(conn *amqp.Connection, send func()) error {
	socket, ok := sockets.Load(weak.Make(conn))
	if !ok {
		send()
		return nil
	}
	s := socket.(*gatheringSocket)
	s.begin()
	send()
	return s.end()
}

// mostGathered is the most bytes that wait.
const mostGathered = 64 << 10

// gatheringSocket keeps bytes while calls of Together are under way. The first of them to end writes all.
type gatheringSocket struct {
	net.Conn

	mu        sync.Mutex
	gathering int // calls of Together
	gathered  []byte
	err       error // of a write: all later ones fail, too
}

func (s *gatheringSocket) begin() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathering++
}

func (s *gatheringSocket) Write(b []byte) (int, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.gathering > 0 && len(s.gathered)+len(b) <= mostGathered {
		s.gathered = append(s.gathered, b...)
		return len(b), nil
	}
	if err := s.flush(); err != nil {
		return 0, err
	}
	return s.Conn.Write(b)
}

func (s *gatheringSocket) end() error {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.gathering--
	return s.flush()
}

// flush writes the gathered bytes. After an error it closes the socket, because amqp091-go has taken them for written.
// Each call of Together under way then returns that error, because the bytes may be its own.
func (s *gatheringSocket) flush() error {
	if s.err == nil && len(s.gathered) > 0 {
		if _, err := s.Conn.Write(s.gathered); err != nil {
			s.err = errors.Join(err, s.Close())
		}
		s.gathered = s.gathered[:0]
	}
	return s.err
}
