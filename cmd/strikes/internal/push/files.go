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

// maxFile is the largest file of a token or of authorities, in bytes.
const maxFile = 1 << 20

// token reads the token. Its file is read for every attempt, because a token expires and its file is replaced.
func (o Options) token() (string, error) {
	raw, err := read(o.TokenFile)
	if err != nil {
		return "", refusedFile("--http-token-file", err)
	}
	token := strings.TrimSpace(string(raw))
	if token == "" || safe(token) == "" || strings.ContainsRune(token, ' ') {
		return "", &setting.FieldError{Field: "--http-token-file", Want: "a file of one token, in printable ASCII",
			Value: "another content"}
	}
	return token, nil
}

func read(path string) ([]byte, error) {
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// refusedFile is an error of os, which quotes the path.
func refusedFile(flag string, err error) error {
	return &setting.FieldError{Field: flag, Want: "a file that can be read", Value: err.Error()}
}

// tlsConfig reads the files of certificates.
func (o Options) tlsConfig(scheme string) (*tls.Config, error) {
	for flag, path := range map[string]string{"--http-ca": o.CA, "--http-cert": o.Cert, "--http-key": o.Key} {
		if path != "" && scheme != "https" {
			return nil, &setting.FieldError{Field: flag, Want: "left out if the URL is not https", Value: "both"}
		}
	}
	config := &tls.Config{MinVersion: tls.VersionTLS12}
	if o.CA != "" {
		pem, err := read(o.CA)
		if err != nil {
			return nil, refusedFile("--http-ca", err)
		}
		config.RootCAs = x509.NewCertPool()
		if !config.RootCAs.AppendCertsFromPEM(pem) {
			return nil, &setting.FieldError{Field: "--http-ca", Want: "a file of certificates in PEM", Value: "none in it"}
		}
	}
	if (o.Cert == "") != (o.Key == "") {
		return nil, &setting.FieldError{Field: "--http-cert", Want: "given together with --http-key", Value: "one of the two"}
	}
	if _, err := o.certificate(); err != nil {
		return nil, &setting.FieldError{Field: "--http-cert", Want: "with --http-key a certificate and its key in PEM",
			Value: err.Error()}
	}
	return config, nil
}

// certificate is the client's, an empty one if there is none.
func (o Options) certificate() (*tls.Certificate, error) {
	if o.Cert == "" {
		return &tls.Certificate{}, nil
	}
	pair, err := tls.LoadX509KeyPair(o.Cert, o.Key)
	return &pair, err
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
