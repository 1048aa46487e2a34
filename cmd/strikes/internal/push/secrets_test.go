package push

import (
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestSecretAtTheCut has an endpoint quote a token wherever the reason may be cut, once and many times.
func TestSecretAtTheCut(t *testing.T) {
	const token = "hush-0123456789abcdef0123456789abcdef"
	file := filepath.Join(t.TempDir(), "token")
	need(t, os.WriteFile(file, []byte(token), 0o600))
	var body string
	e := endpoint(t, Options{URL: serve(t, func(w http.ResponseWriter, r *http.Request) {
		status(500, body)(w, r)
	}).URL, TokenFile: file})
	for before := maxReason - len(token) - 1; before <= maxReason+1; before++ {
		for _, times := range []int{1, 100} {
			body = strings.Repeat(".", before) + strings.Repeat(token, times)
			if got := attempt(t, e, amqp.Delivery{}).Err.Error(); strings.Contains(got, "hu") ||
				!strings.Contains(got, strings.Repeat(".", maxReason-len(token)-1)) {
				t.Fatalf("%d bytes before %d tokens: ends with %q", before, times, got[len(got)-50:])
			}
		}
	}
	for times := 1; times < 60; times++ {
		body = strings.Repeat(token+"\n", times)
		if got := attempt(t, e, amqp.Delivery{}).Err.Error(); strings.Contains(got, "hu") || !strings.Contains(got, "xxxxx") {
			t.Fatalf("%d tokens: %q", times, got)
		}
	}
}

// TestSecretsOfTheURL: an endpoint may quote any part of it, in its body, in a location, or in a response that is no
// HTTP.
func TestSecretsOfTheURL(t *testing.T) {
	for _, quoted := range []string{
		"p@hush/1", "p%40hush%2F1", "/hush a", "/hush%20a", "%2Fhush+a", "k=hush%21&b", "k=hush!&b", "/hush%20a?k=hush%21&b",
	} {
		for name, handler := range map[string]http.HandlerFunc{
			"body": status(400, "you sent "+quoted+"."),
			"location": func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Location", "/x/"+quoted)
				w.WriteHeader(http.StatusFound)
			},
			"no HTTP": func(w http.ResponseWriter, _ *http.Request) {
				conn := hijack(t, w)
				_, _ = conn.Write([]byte("HTTP/1.1 " + strings.ReplaceAll(quoted, " ", "%20") + "\r\n\r\n"))
				_ = conn.Close()
			},
		} {
			url := strings.Replace(serve(t, handler).URL, "http://", "http://u:p%40hush%2F1@", 1) + "/hush%20a?k=hush%21&b"
			if got := attempt(t, endpoint(t, Options{URL: url}), amqp.Delivery{}).Err.Error(); strings.Contains(got, "hush") {
				t.Errorf("%s of %q: %q", name, quoted, got)
			}
		}
	}
}
