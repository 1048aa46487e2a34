package push

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/strikesmq/strikes/internal/setting"
)

// token reads the token. Its file is read for every attempt, because a token expires and its file is replaced.
func (o Options) token() (string, error) {
	raw, err := os.ReadFile(o.TokenFile)
	if err != nil { // it quotes the path
		return "", &setting.FieldError{Field: "--http-token-file", Want: "a file that can be read", Value: err.Error()}
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || safe(token) == "" || strings.ContainsRune(token, ' ') {
		return "", &setting.FieldError{Field: "--http-token-file", Want: "a file of one token, in printable ASCII",
			Value: "another content"}
	}
	return token, nil
}

// misconfigured reports whether the endpoint and this consumer do not agree on TLS, which no wait repairs.
func misconfigured(err error) bool {
	var alert tls.AlertError
	var record tls.RecordHeaderError
	var opError *net.OpError
	return errors.As(err, new(*tls.CertificateVerificationError)) || errors.As(err, new(x509.HostnameError)) ||
		errors.As(err, &record) || errors.Is(err, http.ErrSchemeMismatch) ||
		errors.As(err, &alert) || errors.As(err, &opError) && opError.Op == "remote error"
}
