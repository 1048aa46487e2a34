package push

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"io"
	"net"
	"net/http"
	"os"
	"strings"

	"github.com/strikesmq/strikes/internal/setting"
)

const maxFile = 1 << 20

// token reads the token. Its file is read for every attempt, because a token expires and its file is replaced.
func (o Options) token() (string, error) {
	f, err := os.Open(o.TokenFile)
	if err != nil {
		return "", unreadable(err)
	}
	defer f.Close()
	raw, err := io.ReadAll(io.LimitReader(f, maxFile))
	if err != nil {
		return "", unreadable(err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || safe(token) == "" || strings.ContainsRune(token, ' ') {
		return "", &setting.FieldError{Field: "--http-token-file", Want: "a file of one token, in printable ASCII",
			Value: "another content"}
	}
	return token, nil
}

// unreadable returns the error for a token file that cannot be read. The error of os quotes the path.
func unreadable(err error) error {
	return &setting.FieldError{Field: "--http-token-file", Want: "a file that can be read", Value: err.Error()}
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
