package push

import (
	"errors"
	"net/http/httptrace"
	"net/textproto"
	"sync/atomic"
	"syscall"
)

func isReset(err error) bool {
	return errors.Is(err, syscall.ECONNRESET) || errors.Is(err, syscall.EPIPE)
}

// progress is how far an attempt came, on its last connection.
type progress struct {
	sent     atomic.Bool // the headers, and maybe more
	reused   atomic.Bool // earlier requests used the connection, so the first byte may belong to the previous response
	answered atomic.Bool // the first byte of a response came, which was no 1xx
}

// trace follows a request. GetConn is also called where net/http tries again, because nothing was sent.
func (p *progress) trace() *httptrace.ClientTrace {
	return &httptrace.ClientTrace{
		GetConn: func(string) {
			p.sent.Store(false)
			p.answered.Store(false)
		},
		GotConn:              func(c httptrace.GotConnInfo) { p.reused.Store(c.Reused) },
		WroteHeaders:         func() { p.sent.Store(true) },
		GotFirstResponseByte: func() { p.answered.Store(true) },
		Got1xxResponse: func(int, textproto.MIMEHeader) error {
			p.answered.Store(false)
			return nil
		},
	}
}
