package console

import (
	"fmt"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"testing"
	"time"

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
