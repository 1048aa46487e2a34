package main

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"time"

	"github.com/strikesmq/strikes/internal/uri"
)

// speakTimeout bounds the wait for a server that may not answer what it does not understand.
const speakTimeout = time.Second

// protocol is what a server speaks, as its answer to a few bytes that none understands tells.
type protocol string

const (
	isAMQP  protocol = "AMQP"
	isRedis protocol = "the Redis protocol"
	isTLS   protocol = "TLS"
	isHTTP  protocol = "HTTP"
	unknown protocol = ""
)

// wrongProtocol says what answers where a URL of a broker or a store leads; "" if it is what the URL says, or not known.
func wrongProtocol(ctx context.Context, rawURL string) string {
	u, _, err := uri.Parse(rawURL)
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
	plain, kind := strings.TrimSuffix(scheme, "s"), strings.TrimPrefix(u.Scheme, scheme)
	switch {
	case got == unknown, got == ours && !encrypted, got == isTLS && encrypted:
		return ""
	case got == ours:
		return fmt.Sprintf("it speaks %s without TLS: write %s:// instead of %s://", got, plain+kind, u.Scheme)
	case got == isTLS:
		return fmt.Sprintf("it speaks TLS: write %s:// instead of %s://", plain+"s"+kind, u.Scheme)
	case got == isHTTP && ours == isAMQP:
		return "it speaks HTTP, not AMQP: the management API has a port of its own, give that for AMQP"
	}
	return fmt.Sprintf("it speaks %s, not %s", got, ours)
}

// speaks asks a server for what it speaks.
func speaks(ctx context.Context, addr string) protocol {
	ctx, cancel := context.WithTimeout(ctx, speakTimeout)
	defer cancel()
	conn, err := new(net.Dialer).DialContext(ctx, "tcp", addr)
	if err != nil {
		return unknown
	}
	defer conn.Close()
	defer context.AfterFunc(ctx, func() { _ = conn.Close() })()
	if _, err := conn.Write([]byte("PING\r\n\r\n")); err != nil {
		return unknown
	}
	answer := make([]byte, 5)
	n, _ := io.ReadFull(conn, answer) // what came is judged
	return protocolOf(answer[:n])
}

// protocolOf tells by the first bytes of an answer what a server speaks.
func protocolOf(answer []byte) protocol {
	switch {
	case bytes.HasPrefix(answer, []byte("AMQP")):
		return isAMQP
	case bytes.HasPrefix(answer, []byte("HTTP/")):
		return isHTTP
	case bytes.HasPrefix(answer, []byte("+PONG")), bytes.HasPrefix(answer, []byte("-")):
		return isRedis
	case bytes.HasPrefix(answer, []byte{0x15, 3}): // an alert
		return isTLS
	}
	return unknown
}
