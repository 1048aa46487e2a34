package push

import (
	"crypto/tls"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/setting"
)

// secure is a server with a certificate for 127.0.0.1.
func secure(t *testing.T, h http.HandlerFunc, settings ...func(*httptest.Server)) *httptest.Server {
	t.Helper()
	s := httptest.NewUnstartedServer(h)
	s.EnableHTTP2 = true
	s.TLS = &tls.Config{MinVersion: tls.VersionTLS12}
	for _, set := range settings {
		set(s)
	}
	s.StartTLS()
	t.Cleanup(s.Close)
	return s
}

func TestTLS(t *testing.T) {
	wants := func(s *httptest.Server) { s.TLS.ClientAuth = tls.RequireAnyClientCert }
	for _, tc := range []struct {
		name    string
		set     []func(*httptest.Server)
		url     func(string) string
		strange bool // the authority is not known
		handler http.HandlerFunc
		want    consumer.Outcome
		says    string
	}{
		{name: "trusted", want: consumer.OutcomeAck},
		{name: "unknown authority", strange: true, want: consumer.OutcomeNotCounted, says: "configuration: "},
		{name: "wrong name", url: func(u string) string { return strings.Replace(u, "127.0.0.1", "localhost", 1) },
			want: consumer.OutcomeNotCounted, says: "not localhost"},
		{name: "no TLS is spoken to it", url: func(u string) string { return strings.Replace(u, "https", "http", 1) },
			want: consumer.OutcomeRetry, says: "HTTP 400 Bad Request: Client sent an HTTP request to an HTTPS server"},
		{name: "no client's certificate", set: []func(*httptest.Server){wants}, want: consumer.OutcomeNotCounted,
			says: "configuration: "},
		{name: "a connection that ends", handler: func(http.ResponseWriter, *http.Request) {
			panic(http.ErrAbortHandler)
		}, want: consumer.OutcomeCrash,
			says: "ended the connection before its response"},
		{name: "fails", handler: status(500, "no"), want: consumer.OutcomeRetry, says: "HTTP 500 Internal Server Error: no"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			proto := ""
			s := secure(t, func(w http.ResponseWriter, r *http.Request) {
				proto = r.Proto
				if tc.handler != nil {
					tc.handler(w, r)
				}
			}, tc.set...)
			s.Config.ErrorLog = nil
			o := Options{URL: s.URL}
			if tc.url != nil {
				o.URL = tc.url(o.URL)
			}
			e := endpoint(t, o)
			if tc.strange {
				e.transport.TLSClientConfig.RootCAs = nil
			}
			got, says := attempt(t, e, amqp.Delivery{Body: []byte("x")}), ""
			if got.Err != nil {
				says = got.Err.Error()
			}
			if got.Outcome != tc.want || !strings.Contains(says, tc.says) {
				t.Errorf("%s: %q, want %s: %q", got.Outcome, says, tc.want, tc.says)
			}
			if proto != "" && proto != "HTTP/1.1" {
				t.Errorf("it speaks %s", proto)
			}
		})
	}
	t.Run("TLS is spoken to plain HTTP", func(t *testing.T) {
		s := serve(t, status(200, ""))
		got := attempt(t, endpoint(t, Options{URL: strings.Replace(s.URL, "http", "https", 1)}), amqp.Delivery{})
		if got.Outcome != consumer.OutcomeNotCounted || !strings.Contains(got.Err.Error(), "configuration: ") ||
			!strings.Contains(got.Err.Error(), "server gave HTTP response to HTTPS client") {
			t.Errorf("%s: %v", got.Outcome, got.Err)
		}
	})
}

func TestRefusedOptions(t *testing.T) {
	empty := filepath.Join(t.TempDir(), "empty")
	need(t, os.WriteFile(empty, nil, 0o600))
	for _, tc := range []struct {
		options Options
		field   string
	}{
		{Options{URL: ""}, "--http"},
		{Options{URL: "h:8080/x"}, "--http"},
		{Options{URL: "//h/x"}, "--http"},
		{Options{URL: "http://"}, "--http"},
		{Options{URL: "http:///x"}, "--http"},
		{Options{URL: "http://:80/"}, "--http"},
		{Options{URL: "http://h:/"}, "--http"},
		{Options{URL: "http://h:65536/"}, "--http"},
		{Options{URL: "http://u:hush@ush@h/"}, "--http"},
		{Options{URL: "ftp://u:hush@h/"}, "--http"},
		{Options{URL: "http://h/#part"}, "--http"},
		{Options{URL: "http://h/\x00"}, "--http"},
		{Options{URL: "https://h/", TokenFile: empty}, "--http-token-file"},
		{Options{URL: "https://h/", TokenFile: filepath.Dir(empty)}, "--http-token-file"},
		{Options{URL: "https://u:hush@h/", TokenFile: empty}, "--http-token-file"},
	} {
		e, err := New(tc.options)
		field, is := err.(*setting.FieldError) //nolint:errorlint // it is this one
		if !is || !strings.HasPrefix(field.Field, tc.field) || strings.Contains(err.Error(), "hush") || e != nil {
			t.Errorf("%+v: %v", tc.options, err)
		}
	}
	for _, good := range []string{"http://h", "https://h:8443/a/b?c=d", "http://[::1]:80/", "http://u:p%40@h/"} {
		if _, err := New(Options{URL: good}); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
}
