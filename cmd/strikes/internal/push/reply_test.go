package push

import (
	"errors"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"
	"unicode/utf8"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

func TestJudge(t *testing.T) {
	for want, statuses := range map[string][]int{
		"done":        {200, 201, 202, 204, 206, 299},
		"rejected":    {409, 410, 422},
		"not counted": {429, 503},
		"crashed":     {502},
		"failed": {300, 301, 302, 303, 304, 307, 308, 400, 401, 403, 404, 405, 408, 412, 413, 425, 500, 501, 504, 505, 507,
			599, 600, 999},
	} {
		for _, status := range statuses {
			if got := judged((reply{status: status}).judge(time.Now())); got != want {
				t.Errorf("%d: %s, want %s", status, got, want)
			}
		}
	}
}

// judged names the function that made err. The type is not exported.
func judged(err error) string {
	madeBy := func(steer func(error) error) bool { return reflect.DeepEqual(err, steer(errors.Unwrap(err))) }
	switch {
	case err == nil:
		return "done"
	case madeBy(consumer.Reject):
		return "rejected"
	case madeBy(consumer.NotCounted):
		return "not counted"
	case madeBy(consumer.Crashed):
		return "crashed"
	}
	return "failed"
}

func TestWaitOf(t *testing.T) {
	now := time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC)
	for header, want := range map[string]time.Duration{
		"": 0, "0": 0, "7": 7 * time.Second, " 7 ": 7 * time.Second, "100000": maxWait, "99999999999999999999999": maxWait,
		"-1": 0, "1.5": 0, "soon": 0, "7s": 0,
		now.Add(time.Minute).Format(http.TimeFormat):    time.Minute,
		now.Add(time.Minute).Format(time.RFC850):        time.Minute,
		now.Add(-time.Minute).Format(http.TimeFormat):   0,
		now.Add(24 * time.Hour).Format(http.TimeFormat): maxWait,
	} {
		if got := waitOf(header, now); got != want {
			t.Errorf("%q: %v, want %v", header, got, want)
		}
	}
}

// TestRetryAfter: only a reply that is not counted has its wait obeyed. A date goes by the clock of the endpoint.
func TestRetryAfter(t *testing.T) {
	for code, want := range map[int]time.Duration{429: 3 * time.Second, 503: 3 * time.Second, 502: 3 * time.Second,
		500: time.Millisecond} {
		s := serve(t, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Retry-After", "3")
			if code == http.StatusServiceUnavailable {
				ahead := time.Now().UTC().Add(time.Hour)
				w.Header().Set("Date", ahead.Format(http.TimeFormat))
				w.Header().Set("Retry-After", ahead.Add(3*time.Second).Format(http.TimeFormat))
			}
			w.WriteHeader(code)
		})
		got := attempt(t, endpoint(t, Options{URL: s.URL}), amqp.Delivery{}, func(c *consumer.Consumer) {
			c.Backoff = func(int) time.Duration { return time.Millisecond }
		})
		if got.Wait != want {
			t.Errorf("%d: %s, waits %v, want %v", code, got.Outcome, got.Wait, want)
		}
	}
}

// FuzzReason: whatever an endpoint sends, the reason is short, and safe to print.
func FuzzReason(f *testing.F) {
	f.Add(500, "a\x1b[31m", "http://u:hush@h/", "7")
	f.Add(307, "\xff\xfe\u202e", "//u:hush@h", "Fri, 02 Jan 2026 03:04:05 GMT")
	f.Fuzz(func(t *testing.T, status int, text, location, after string) {
		r := reply{status, location, after, text[:min(len(text), maxReason)]}
		_ = r.judge(time.Now())
		got := r.reason()
		if len(got) > 10*maxReason || !utf8.ValidString(got) || strings.ContainsAny(got, "\x1b\x00\u202e\u009b") {
			t.Errorf("%q", got)
		}
		if wait := waitOf(after, time.Now()); wait < 0 || wait > maxWait {
			t.Errorf("%q: %v", after, wait)
		}
	})
}

// FuzzHeaders: a message's properties make valid headers that give back the id.
func FuzzHeaders(f *testing.F) {
	f.Add("a b%\r\n", "text/plain\r\nX: y", "00-1")
	f.Fuzz(func(t *testing.T, id, contentType, trace string) {
		h := headers("q", amqp.Delivery{MessageId: id, ContentType: contentType, Headers: amqp.Table{"traceparent": trace}},
			consumer.Attempt{Token: "t"})
		for name, values := range h {
			for _, v := range values {
				if safe(v) != v {
					t.Errorf("%s: %q", name, v)
				}
			}
		}
		if got := decode(t, h.Get("Strikes-Message-Id")); got != id {
			t.Errorf("%q came back as %q", id, got)
		}
	})
}

func decode(t *testing.T, s string) string {
	t.Helper()
	out, err := url.PathUnescape(s)
	if err != nil {
		t.Error(err)
	}
	return out
}

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
