package push

import (
	"errors"
	"net"
	"net/http/httptrace"
	"reflect"
	"sync"
	"time"
)

// progress is how far an attempt came, on its last connection.
type progress struct {
	mu       sync.Mutex
	sent     bool          // the headers, and maybe more
	answered bool          // the first byte of a response came
	wrote    chan struct{} // closed when the body is written, or has failed to be
	writeErr error
}

// trace follows a request. GetConn is also called where net/http tries again, because nothing was sent.
func (p *progress) trace() *httptrace.ClientTrace {
	locked := func(set func()) {
		p.mu.Lock()
		defer p.mu.Unlock()
		set()
	}
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			locked(func() { p.sent, p.answered, p.writeErr, p.wrote = false, false, nil, make(chan struct{}) })
		},
		WroteHeaders:         func() { locked(func() { p.sent = true }) },
		GotFirstResponseByte: func() { locked(func() { p.answered = true }) },
		WroteRequest: func(info httptrace.WroteRequestInfo) {
			locked(func() {
				select {
				case <-p.wrote:
				default:
					p.writeErr = info.Err
					close(p.wrote)
				}
			})
		},
	}
}

// now returns whether the headers were sent, and whether a response began.
func (p *progress) now() (sent, answered bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.sent, p.answered
}

// unread reports whether the connection ended, with err, before the whole body was written. An end for reading is often known
// before that for writing is, which then comes at once.
func (p *progress) unread(err error) bool {
	var op *net.OpError
	if errors.As(err, &op) && op.Op == "write" {
		return true
	}
	p.mu.Lock()
	wrote := p.wrote
	p.mu.Unlock()
	select {
	case <-wrote:
	case <-time.After(drainTimeout):
		return true
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.writeErr != nil
}

// Codes of HTTP/2, RFC 9113 section 7.
const (
	protocolError uint32 = 0x1
	refusedStream uint32 = 0x7
)

// streamCode returns the code that ended a stream of HTTP/2, if that is what the error says. Errors of net/http convert themselves
// to a struct of these fields.
func streamCode(err error) (code uint32, is bool) {
	var stream streamError
	is = errors.As(err, &stream)
	return stream.Code, is
}

type streamError struct {
	StreamID uint32
	Code     uint32
	Cause    error
}

func (streamError) Error() string { return "a stream of HTTP/2 ended" }

// invalid reports whether the client ended a connection or stream of HTTP/2 because of what it read. net/http does not export its
// error for a connection, which is the only one that is a number of this kind.
func invalid(err error) bool {
	if code, is := streamCode(err); is {
		return code == protocolError
	}
	for ; err != nil; err = errors.Unwrap(err) {
		if reflect.ValueOf(err).Kind() == reflect.Uint32 {
			return true
		}
	}
	return false
}
