package push

import (
	"net"
	"sync"
	"time"
)

// lateResponse is how long a response may still be read after the endpoint stopped reading the request.
const lateResponse = time.Second

// readFirst is a connection on which a failed write waits until everything that the endpoint sent is read. An endpoint
// may respond and close the connection before it has read the body. net/http drops the connection at the first failed
// write, even if the response has arrived.
type readFirst struct {
	net.Conn
	over    chan struct{} // no more can be read
	endOnce sync.Once
}

func newReadFirst(conn net.Conn) *readFirst { return &readFirst{Conn: conn, over: make(chan struct{})} }

func (c *readFirst) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if err != nil {
		c.end()
	}
	return n, err
}

func (c *readFirst) Write(b []byte) (int, error) {
	n, err := c.Conn.Write(b)
	if err == nil || !isReset(err) {
		return n, err
	}
	patience := time.NewTimer(lateResponse)
	defer patience.Stop()
	select {
	case <-c.over:
	case <-patience.C:
	}
	return n, err
}

func (c *readFirst) Close() error {
	c.end()
	return c.Conn.Close()
}

func (c *readFirst) end() { c.endOnce.Do(func() { close(c.over) }) }
