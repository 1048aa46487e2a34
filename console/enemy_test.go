package console

import (
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"strings"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"
)

// TestAuditNamesTheChange: an address cannot make the audit name another change than the one that is made.
func TestAuditNamesTheChange(t *testing.T) {
	f := newFixture(t, Options{Allow: AllVerbs()})
	f.fail(t, "m-1")
	for _, verb := range []Verb{VerbSkip, VerbReset} {
		change := query("change", "verb", string(verb), "id", "m-1", "undo", "1")
		if w := f.post(change, url.Values{"why": {"r"}, "number": {"1"}}); w.Code != http.StatusUnprocessableEntity {
			t.Errorf("%s that undoes: %d, want 422", verb, w.Code)
		}
	}
	if log, err := f.store.AuditLog(t.Context(), "/", "orders", "", 10); err != nil || len(log) > 0 {
		t.Errorf("audit %v, %v", log, err)
	}
}

// counted counts the bytes that are read from it.
type counted struct {
	io.Reader
	read int64
}

func (c *counted) Read(p []byte) (int, error) {
	n, err := c.Reader.Read(p)
	c.read += int64(n)
	return n, err
}

// TestLargeForms: the console reads no more than a form, and keeps nothing on disk. A login comes before it knows the
// visitor.
func TestLargeForms(t *testing.T) {
	f := newFixture(t, Options{Token: token})
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		part := "--b\r\nContent-Disposition: form-data; name=\"f\"; filename=\"f\"\r\n\r\n"
		body := &counted{Reader: io.MultiReader(strings.NewReader(part), strings.NewReader(strings.Repeat("x", 4<<20)))}
		r := httptest.NewRequest(method, host+"/login", body)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		f.ServeHTTP(httptest.NewRecorder(), r)
		if body.read > 2*largestForm {
			t.Errorf("%s: the console read %d bytes", method, body.read)
		}
	}
}

// TestDropThatDoesNotBegin leaves no file, open or empty.
func TestDropThatDoesNotBegin(t *testing.T) {
	f := newFixture(t, dropping(t))
	f.kill(t, "r", "m-1")
	f.broker.dead.all[0].Publishing.Headers = amqp.Table{"k": "v"}
	f.redis.SetError("down")
	answers(t, f.post(query("drop"), url.Values{"count": {"1"}, "why": {"r"}}), http.StatusServiceUnavailable)
	f.redis.SetError("")
	// the audit cannot be written
	if err := f.redis.Set("strikes:1:{%2F/orders}:audit", "of another program"); err != nil {
		t.Fatal(err)
	}
	answers(t, f.post(query("drop", "lane-header", "k", "lane", "v"), url.Values{"count": {"1"}, "why": {"r"}}),
		http.StatusSeeOther)
	says(t, f.ended(t), "nothing was done")
	if files, err := os.ReadDir(f.opts.DropDir); err != nil || len(files) > 0 {
		t.Errorf("%v, %v", files, err)
	}
}
