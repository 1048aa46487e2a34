package console

import (
	"errors"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/alicebob/miniredis/v2/server"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/doctor"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/ops"
)

// TestExamination: the first page says that nothing is examined yet. Then it shows the findings of an examination.
// Only one of everything, without an error, lets it say that nothing is wrong.
func TestExamination(t *testing.T) {
	f := newFixture(t, Options{})
	f.broker.change(func(s *ops.Status) {
		s.Consumers, s.Ready, s.Retrying, s.Blocking, s.Dead = new(1), new(0), 0, nil, ops.DeadLetters{}
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
	answers(t, f.post("/doctor", url.Values{}), http.StatusSeeOther)
	sees("/doctor", "1 error", "consumers without acknowledgements")
	sees("/", "1 of 1 queue with an error", "consumers without acknowledgements")
	refused := errors.New("channel refused")
	f.broker.unseen.Store(&refused)
	f.post("/doctor", url.Values{})
	sees("/doctor", ">ledger<", "Not examined: <bdi>channel refused", "1 error", "consumers without acknowledgements")
	sees("/", "1 error", "It could not examine everything.")
	f.broker.found = nil
	f.post("/doctor", url.Values{})
	sees("/", `<span class="tag warn">no error</span> found by the doctor `, "It could not examine everything.")
	f.broker.unseen.Store(nil)
	gone := errors.New("connection refused")
	f.broker.away.Store(&gone)
	f.post("/doctor", url.Values{})
	sees("/doctor", "not all could be examined", "<h2>Queues</h2>", "connection refused")
}

// TestDoctorShowsPartOfTheBroker: a report of the broker that has findings and an error shows both, and none of its
// errors is about a queue.
func TestDoctorShowsPartOfTheBroker(t *testing.T) {
	f := newFixture(t, Options{}, func(b *fakeBroker) {
		close(b.examine)
		// before the first examination: while that is under way, no other begins
		b.report.Store(&doctor.Report{Subject: "broker", Name: "RabbitMQ 4.3", Err: errors.New("delay queues refused"),
			Findings: []inspect.Finding{{Code: "x", Severity: inspect.Warning, Seen: "a memory alarm is on"}}})
	})
	f.post("/doctor", url.Values{})
	for _, path := range []string{"/doctor", query("doctor")} {
		proctest.Eventually(t, 30*time.Second, path+" with the findings and the error", func() bool {
			body := f.get(path).Body.String()
			return strings.Contains(body, "a memory alarm is on") && strings.Contains(body, "Not examined in full") &&
				strings.Contains(body, "delay queues refused")
		})
	}
}

// TestStoreIsExaminedBesideTheBroker: a broker that hangs takes no time from the examination of the store.
func TestStoreIsExaminedBesideTheBroker(t *testing.T) {
	asked := make(chan struct{})
	closed := sync.OnceFunc(func() { close(asked) })
	f := newFixture(t, Options{}, func(b *fakeBroker) {
		close(b.examine)
		b.hangs = func() {
			select {
			case <-asked:
			case <-time.After(20 * time.Second):
				t.Error("the store was not asked while the broker hung")
			}
		}
	})
	f.redis.Server().SetPreHook(func(_ *server.Peer, command string, _ ...string) bool {
		if strings.EqualFold(command, "INFO") {
			closed()
		}
		return false
	})
	f.get(query("doctor"))
}

// TestBrokerAwayOnTheFirstPage: without the broker the first page does not say that nothing is blocked or missing.
func TestBrokerAwayOnTheFirstPage(t *testing.T) {
	for dead, want := range map[int64]string{
		2: "No answer from the broker. Nothing is known to be blocked; 2 dead letters",
		0: "No answer from the broker. Nothing is known to be blocked in 1 queue",
	} {
		f := newFixture(t, Options{}, func(b *fakeBroker) {
			close(b.examine)
			b.change(func(s *ops.Status) { s.Retrying, s.Blocking, s.Dead.Still = 0, nil, dead })
		})
		proctest.Eventually(t, 30*time.Second, "an examination", func() bool {
			return strings.Contains(f.get("/").Body.String(), `<span class="tag good">no error</span>`)
		})
		away := errors.New("connection refused")
		f.broker.away.Store(&away)
		f.changed("orders")
		body := f.get("/").Body.String()
		says(t, body, want, "<dt>Blocked or stopped</dt><dd>?</dd>", "not known: ready messages and consumers")
		if strings.Contains(body, "<dt>Unaccounted for</dt><dd>0</dd>") == (dead > 0) {
			t.Errorf("%d dead letters: %s", dead, body)
		}
	}
}

// TestStoreAwayOnTheFirstPage: without the store the first page shows its last known figures, and no zero that is not
// known.
func TestStoreAwayOnTheFirstPage(t *testing.T) {
	refused := error(&counter.StoreError{Fault: counter.FaultUnreachable, Err: errors.New("connection refused")})
	lacks := func(t *testing.T, body string, parts ...string) {
		t.Helper()
		for _, part := range parts {
			if strings.Contains(body, part) {
				t.Errorf("the page says %q: %s", part, body)
			}
		}
	}
	t.Run("later", func(t *testing.T) {
		f := newFixture(t, Options{}, func(b *fakeBroker) { close(b.examine) })
		f.broker.change(func(s *ops.Status) { s.Dead.Still, s.Retrying = 17, 0 })
		f.changed("orders")
		says(t, f.get("/").Body.String(), "<dt>Dead letters</dt><dd>17</dd>")
		proctest.Eventually(t, 30*time.Second, "an examination", func() bool {
			return strings.Contains(f.get("/").Body.String(), `<span class="tag good">no error</span>`)
		})
		f.broker.storeAway.Store(&refused)
		f.changed("orders")
		body := f.get("/").Body.String()
		says(t, body, "No answer from the store. Known ", " ago: ", "connection refused",
			"This page shows what was known ", "<dt>Dead letters</dt><dd>17</dd>", `<span class="tag">no error</span>`)
		lacks(t, body, `<span class="quiet">nothing</span>`, "Nothing is known yet")
		f.broker.storeAway.Store(nil)
		f.changed("orders")
		lacks(t, f.get("/").Body.String(), "No answer")
	})
	t.Run("from the start", func(t *testing.T) {
		f := newFixture(t, Options{}, func(b *fakeBroker) { b.storeAway.Store(&refused) })
		body := f.get("/").Body.String()
		says(t, body, "No answer from the store. ", "connection refused", "<dt>Dead letters</dt><dd>?</dd>",
			`data-label="failing">?</td>`, `data-label="dead">?</td>`, "not known: the store has not answered",
			"Failing messages and dead letters are not known")
		lacks(t, body, `<span class="quiet">nothing</span>`, "what was known")
		if f.history.of("orders") != nil {
			t.Error("the curves have a figure that is not known")
		}
	})
}
