package broker

import (
	"cmp"
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/setting"
)

// ErrWrongServer says that a URL leads to a server which speaks another protocol.
var ErrWrongServer = errors.New("wrong server")

// hearTimeout bounds the wait for a server that may not answer a protocol that it does not know.
const hearTimeout = time.Second

// tlsAlert begins the answer of TLS to anything else.
const tlsAlert = "\x15"

// protocols maps a scheme to its protocol. begins has the possible first bytes of a reply to PING: + or - of Redis, and
// A of the header AMQP that RabbitMQ sends.
var protocols = map[string]struct {
	name, begins, port string
	encrypted          bool
	other              string // the scheme with TLS, or without
}{
	"amqp":   {"AMQP", "A", "5672", false, "amqps"},
	"amqps":  {"AMQP", "A", "5671", true, "amqp"},
	"redis":  {"Redis", "+-", "6379", false, "rediss"},
	"rediss": {"Redis", "+-", "6379", true, "redis"},
}

// WrongServer names the fault if the server at a URL speaks TLS and the scheme does not, or the reverse, or if it
// speaks another protocol. It returns "" if nothing is wrong, or the server does not answer. It sends no password.
func WrongServer(ctx context.Context, rawURL string) string {
	u, _, err := setting.ParseURL(rawURL)
	if err != nil || u.Host == "" {
		return ""
	}
	scheme, kind, _ := strings.Cut(u.Scheme, "+") // redis+cluster
	protocol, known := protocols[scheme]
	if !known {
		return ""
	}
	addr := net.JoinHostPort(u.Hostname(), cmp.Or(u.Port(), protocol.port))
	first, _ := hear(ctx, addr, protocol.encrypted)
	if first != "" && strings.Contains(protocol.begins, first) {
		return ""
	}
	otherwise, err := hear(ctx, addr, !protocol.encrypted)
	switch {
	case err == nil && strings.Contains(protocol.begins, otherwise):
		speaks := map[bool]string{false: "it speaks TLS", true: "it does not speak TLS"}[protocol.encrypted]
		other := strings.TrimSuffix(protocol.other+"+"+kind, "+")
		return fmt.Sprintf("%s: write %s:// instead of %s://", speaks, other, u.Scheme)
	case strings.Trim(first+otherwise, tlsAlert) != "":
		return fmt.Sprintf("the server at %s did not answer as %s: correct host and port", addr, protocol.name)
	}
	return ""
}

// hear returns the first byte of a server's reply to PING. It is empty, without an error, if the server completes a TLS
// handshake and sends nothing, as one that wants a client's certificate does.
func hear(ctx context.Context, addr string, encrypted bool) (first string, err error) {
	ctx, cancel := context.WithTimeout(ctx, hearTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return "", err
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if encrypted {
		//nolint:gosec // the owner of the certificate does not matter, because nothing secret is sent
		client := tls.Client(conn, &tls.Config{InsecureSkipVerify: true})
		if err := client.HandshakeContext(ctx); err != nil {
			return "", err
		}
		conn = client
	}
	answer := make([]byte, 1)
	if _, err = io.WriteString(conn, "PING\r\n\r\n"); err == nil {
		_, err = io.ReadFull(conn, answer)
	}
	switch {
	case err == nil:
		return string(answer), nil
	case encrypted:
		return "", nil //nolint:nilerr // it speaks TLS
	}
	return "", err
}
