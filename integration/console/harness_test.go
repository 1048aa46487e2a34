package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/chromedp/chromedp"

	"github.com/strikesmq/strikes/internal/proctest"
)

// TestRecorder has pages commit the faults that the recorder and axe-core must notice. If they did not, no other test
// here could fail.
func TestRecorder(t *testing.T) {
	t.Parallel()
	tests := []struct {
		name, policy, page, want string
	}{
		{"a script that throws", "", "<script>throw new Error('oh')</script>", "oh"},
		{"a dialog", "", "<script>alert('hello')</script>", "dialog: hello"},
		{"a refused script", "default-src 'none'", "<script>1</script>", "security: "},
		{"a refused handler", "default-src 'none'", "<img src='x' onerror='1'>", "security: "},
		{"a refused style", "default-src 'none'", "<p style='color: red'>x</p>", "security: "},
		{"console.error", "", "<script>console.error('bad', 7)</script>", "bad"},
	}
	b := recordingTab(t)
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
				w.Header().Set("Content-Security-Policy", tt.policy)
				w.Header().Set("Content-Type", "text/html")
				fmt.Fprint(w, tt.page)
			}))
			defer server.Close()
			if status := b.visit(server.URL); status != http.StatusOK {
				t.Errorf("status %d", status)
			}
			proctest.Eventually(t, time.Minute, "the recorded fault", func() bool {
				return slices.ContainsFunc(b.recorded(), func(fault string) bool { return strings.Contains(fault, tt.want) })
			})
			b.forget()
		})
	}
	b.visit("data:text/html,<p style='color: %23eee'>x</p>")
	if len(b.violations()) == 0 {
		t.Error("axe-core finds nothing wrong with light grey on white")
	}
}

func TestWithoutScript(t *testing.T) {
	t.Parallel()
	b := newTab(t)
	b.withoutScript()
	b.visit("data:text/html,<p>not yet</p><script>document.querySelector('p').innerText = 'ran'</script>")
	if got := b.text("p"); got != "not yet" {
		t.Errorf("the page says %q", got)
	}
}

// TestReplacedNodes fills a field and clicks a button of a page that replaces both all the time.
func TestReplacedNodes(t *testing.T) {
	t.Parallel()
	const restless = `<main></main><script>
	const main = document.querySelector('main');
	const show = () => {
		if (document.activeElement.tagName === 'INPUT') return;
		const page = '<form><input id=name name=name></form><a href="/next">next</a>';
		main.innerHTML = page.repeat(1 + Math.random() * 20);
	};
	show();
	setInterval(show, 1);
	</script>`
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set("Content-Type", "text/html")
		if r.URL.Path == "/next" {
			fmt.Fprint(w, "<p>arrived</p>")
			return
		}
		fmt.Fprint(w, restless)
	}))
	defer server.Close()
	b := newTab(t)
	for range 5 {
		b.visit(server.URL)
		b.fill("#name", "Ada Lovelace")
		run(b, chromedp.Evaluate[chromedp.Void]("document.activeElement.blur()"))
		if status := b.follow("a"); status != http.StatusOK || b.text("p") != "arrived" {
			t.Errorf("status %d, %q", status, b.text("p"))
		}
	}
}
