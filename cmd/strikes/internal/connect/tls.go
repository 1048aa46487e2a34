package connect

import (
	"cmp"
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/setting"
)

// speakTimeout bounds the wait for a server that may not answer a protocol that it does not know.
const speakTimeout = time.Second

// plainSchemes are the schemes of URLs, with those of the same protocol without TLS, and ports are their default ports.
var (
	plainSchemes = map[string]string{"amqp": "amqp", "amqps": "amqp", "redis": "redis", "rediss": "redis"}
	ports        = map[string]string{"amqp": "5672", "amqps": "5671", "redis": "6379", "rediss": "6379"}
)

// wrongTLS says which scheme to write if the server at a URL speaks TLS and the scheme does not, or the reverse. It
// returns "" if the scheme is right or the server answers neither way. It sends no password.
func wrongTLS(ctx context.Context, rawURL string) string {
	u, _, err := setting.ParseURL(rawURL)
	if err != nil || u.Host == "" {
		return ""
	}
	ctx, cancel := context.WithTimeout(ctx, speakTimeout)
	defer cancel()
	scheme, _, _ := strings.Cut(u.Scheme, "+") // redis+cluster
	addr := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), ports[scheme]))
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return ""
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	plain, known := plainSchemes[scheme]
	if !known {
		return ""
	}
	kind := strings.TrimPrefix(u.Scheme, scheme)
	switch {
	case scheme != plain && answersPlain(conn):
		return fmt.Sprintf("it does not speak TLS: write %s:// instead of %s://", plain+kind, u.Scheme)
	case scheme == plain && answersTLS(ctx, conn):
		return fmt.Sprintf("it speaks TLS: write %s:// instead of %s://", plain+"s"+kind, u.Scheme)
	}
	return ""
}

// answersPlain reports whether a server answers PING as Redis does, or with the header of its version as RabbitMQ does.
func answersPlain(conn net.Conn) bool {
	first := make([]byte, 1)
	if _, err := io.WriteString(conn, "PING\r\n\r\n"); err != nil {
		return false
	}
	_, err := io.ReadFull(conn, first)
	return err == nil && strings.Contains("+-A", string(first))
}

func answersTLS(ctx context.Context, conn net.Conn) bool {
	//nolint:gosec // the owner of the certificate does not matter, because nothing is sent
	return tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) == nil
}
