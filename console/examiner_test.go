package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/ops"
)

// TestExamination: the first page says that nothing is examined yet. Then it shows the findings of an examination.
// Only one of everything, without an error, lets it say that nothing is wrong.
func TestExamination(t *testing.T) {
	f := newFixture(t, Options{})
	f.broker.change(func(s *ops.Status) {
		s.Consumers, s.Ready, s.Blocked, s.Blocking, s.Dead = 1, 0, 0, nil, ops.DeadLetters{}
	})
	sees := func(path string, want ...string) {
		t.Helper()
		proctest.Eventually(t, 30*time.Second, path+" with "+strings.Join(want, ", "), func() bool {
			body := f.get(path).Body.String()
			for _, part := range want {
				if !strings.Contains(body, part) {
					return false
				}
			}
			return true
		})
	}
	f.changed("orders")
	sees("/", "not examined yet", "Nothing is blocked in 1 queue")
	sees("/doctor", "queues are ")
	close(f.broker.examine)
	sees("/doctor", "1 queue, broker and store: nothing is wrong")
	sees("/", "Nothing is wrong in 1 queue", "no error")
	f.broker.found = []inspect.Finding{inspect.Say("auto-ack", inspect.Vars{"consumers": "1 of 1"})}
	if w := f.post("/doctor", url.Values{}); w.Code != http.StatusSeeOther {
		t.Errorf("status %d", w.Code)
	}
	sees("/doctor", "1 error", "consumers without acknowledgements")
	sees("/", "1 of 1 queue with an error", "consumers without acknowledgements")
	refused := errors.New("channel refused")
	f.broker.unseen.Store(&refused)
	f.post("/doctor", url.Values{})
	sees("/doctor", "Not all was examined", "1 queue could not be examined: ledger", "channel refused", "1 error",
		"consumers without acknowledgements")
	sees("/", "1 error", "Not all was examined")
	f.broker.found = nil
	f.post("/doctor", url.Values{})
	sees("/", "not all examined")
	f.broker.unseen.Store(nil)
	gone := errors.New("connection refused")
	f.broker.away.Store(&gone)
	f.post("/doctor", url.Values{})
	sees("/doctor", "Not all was examined", "connection refused")
}
