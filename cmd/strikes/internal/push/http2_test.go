package push

import (
	"crypto/tls"
	"encoding/binary"
	"io"
	"net"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

// Frames of HTTP/2, RFC 9113 section 6.
const (
	frameData, frameHeaders, frameReset, frameSettings byte = 0, 1, 3, 4

	flagEndStream, flagAck, flagEndHeaders byte = 1, 1, 4
)

func writeFrame(w io.Writer, kind, flags byte, stream uint32, payload ...byte) {
	head := binary.BigEndian.AppendUint32(nil, uint32(len(payload))<<8|uint32(kind))
	_, _ = w.Write(append(binary.BigEndian.AppendUint32(append(head, flags), stream), payload...))
}

// frames is an endpoint of HTTP/2 that answers the first request of a connection as respond says.
func frames(t *testing.T, respond func(w io.Writer, stream uint32), settings ...byte) Options {
	t.Helper()
	s, ca, _, _ := secure(t, status(200, ""))
	listener, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: s.TLS.Certificates,
		NextProtos: []string{"h2"}, MinVersion: tls.VersionTLS12})
	need(t, err)
	t.Cleanup(func() { listener.Close() })
	go func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			go speak(conn, respond, settings)
		}
	}()
	return Options{URL: "https://" + listener.Addr().String(), CA: ca}
}

func speak(conn net.Conn, respond func(w io.Writer, stream uint32), settings []byte) {
	defer conn.Close()
	const preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
	if _, err := io.ReadFull(conn, make([]byte, len(preface))); err != nil {
		return
	}
	writeFrame(conn, frameSettings, 0, 0, settings...)
	for head := make([]byte, 9); ; {
		if _, err := io.ReadFull(conn, head); err != nil {
			return
		}
		if _, err := io.CopyN(io.Discard, conn, int64(binary.BigEndian.Uint32(head)>>8)); err != nil {
			return
		}
		kind, flags, stream := head[3], head[4], binary.BigEndian.Uint32(head[5:])
		switch {
		case kind == frameSettings && flags&flagAck == 0:
			writeFrame(conn, frameSettings, flagAck, 0)
		case (kind == frameData || kind == frameHeaders) && flags&flagEndStream != 0:
			respond(conn, stream)
			_, _ = io.Copy(io.Discard, conn) // until the client ends it
			return
		}
	}
}

// TestHTTP2 has endpoints send invalid HTTP/2, and refuse streams.
func TestHTTP2(t *testing.T) {
	for _, tc := range []struct {
		name    string
		respond func(w io.Writer, stream uint32)
		want    consumer.Outcome
		says    string
	}{
		{"COMPRESSION_ERROR", func(w io.Writer, stream uint32) {
			writeFrame(w, frameHeaders, flagEndHeaders, stream, 0xff, 0xff, 0xff, 0xff, 0xff, 0x0f)
		}, consumer.OutcomeRetry, "sent no valid HTTP response"},
		{"PROTOCOL_ERROR", func(w io.Writer, _ uint32) { writeFrame(w, frameData, 0, 0, 'x') },
			consumer.OutcomeRetry, "sent no valid HTTP response"},
		{"no status", func(w io.Writer, stream uint32) {
			writeFrame(w, frameHeaders, flagEndHeaders|flagEndStream, stream, 0, 1, 'a', 1, 'b')
		}, consumer.OutcomeRetry, "sent no valid HTTP response"},
		{"a reset", func(w io.Writer, stream uint32) { writeFrame(w, frameReset, 0, stream, 0, 0, 0, 2) },
			consumer.OutcomeCrash, "ended the connection before its response"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			got := attempt(t, endpoint(t, frames(t, tc.respond)), amqp.Delivery{Body: []byte("x")})
			if got.Outcome != tc.want || !strings.Contains(got.Err.Error(), tc.says) {
				t.Errorf("%s: %v, want %s", got.Outcome, got.Err, tc.want)
			}
		})
	}
}
