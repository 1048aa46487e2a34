package connect

import (
	"context"
	"crypto/tls"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/setting"
)

// speakTimeout bounds the wait for a server that may not answer what it does not understand.
const speakTimeout = time.Second

// protocol is what a server speaks, judged by its answer to a few bytes.
type protocol string

const (
	isAMQP  protocol = "AMQP"
	isRedis protocol = "the Redis protocol"
	isTLS   protocol = "TLS"
	isHTTP  protocol = "HTTP"
	unknown protocol = ""
)

// wrongProtocol says which other protocol the server at a URL speaks; "" if it speaks that of the URL, or is not known.
func wrongProtocol(ctx context.Context, rawURL string) string {
	u, _, err := setting.ParseURL(rawURL)
	if err != nil || u.Host == "" || ctx.Err() != nil {
		return ""
	}
	scheme, _, _ := strings.Cut(u.Scheme, "+")
	ours, port := isAMQP, map[string]string{"amqp": "5672", "amqps": "5671"}[scheme]
	if port == "" {
		ours, port = isRedis, "6379"
	}
	if u.Port() != "" {
		port = u.Port()
	}
	got := speaks(ctx, net.JoinHostPort(u.Hostname(), port))
	encrypted := scheme == "amqps" || scheme == "rediss"
	plain, kind := scheme, strings.TrimPrefix(u.Scheme, scheme)
	if encrypted {
		plain = strings.TrimSuffix(scheme, "s")
	}
	switch {
	case got == unknown, got == ours && !encrypted, got == isTLS && encrypted:
		return ""
	case got == ours:
		return fmt.Sprintf("it speaks %s without TLS: write %s:// instead of %s://", got, plain+kind, u.Scheme)
	case got == isTLS:
		return fmt.Sprintf("it speaks TLS: write %s:// instead of %s://", plain+"s"+kind, u.Scheme)
	case got == isHTTP && ours == isAMQP:
		return "it speaks HTTP, not AMQP: the management API has a port of its own; give the AMQP port"
	}
	return fmt.Sprintf("it speaks %s, not %s", got, ours)
}

// speaks asks a server what it speaks. No password is sent.
func speaks(ctx context.Context, addr string) protocol {
	ctx, cancel := context.WithTimeout(ctx, speakTimeout)
	defer cancel()
	answer := ask(ctx, addr, func(conn net.Conn) string {
		if _, err := io.WriteString(conn, "PING\r\n\r\n"); err != nil {
			return ""
		}
		first := make([]byte, 5)
		n, _ := io.ReadFull(conn, first) // what came is judged
		return string(first[:n])
	})
	switch {
	case strings.HasPrefix(answer, "AMQP"):
		return isAMQP
	case strings.HasPrefix(answer, "HTTP/"):
		return isHTTP
	case strings.HasPrefix(answer, "+PONG"), strings.HasPrefix(answer, "-"):
		return isRedis
	}
	return protocol(ask(ctx, addr, func(conn net.Conn) string {
		//nolint:gosec // whom it belongs to does not matter: nothing is sent
		if tls.Client(conn, &tls.Config{InsecureSkipVerify: true}).HandshakeContext(ctx) != nil {
			return ""
		}
		return string(isTLS)
	}))
}

// ask calls f with a connection that closes when ctx is done; "" if there is none.
func ask(ctx context.Context, addr string, f func(net.Conn) string) string {
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return ""
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	return f(conn)
}
