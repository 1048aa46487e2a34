package cli

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/topology"
)

// TestRemarksAreMadeOnce logs the remarks of two sessions of a consumer.
func TestRemarksAreMadeOnce(t *testing.T) {
	var stderr strings.Builder
	log := NewLogger(&stderr, false)
	for range 2 {
		log.Warn("Redis keeps nothing on disk", "queue", "q")
		log.Warn("topology: warning", slog.String("queue", "it's"), slog.String("code", "c"), slog.String("impact", "w"),
			slog.String("fix", "f"))
		log.Warn("topology: another", slog.String("queue", "it's"), slog.String("code", "d"))
		log.Warn("session ended; another follows", "queue", "q", "in", "1s",
			"error", errors.New(`consumer: queue "q": counter: x`))
		log.Warn("handlers are cancelled: they did not end within the drain timeout", "queue", "billing.Prefetch")
	}
	var got []string
	for line := range strings.Lines(stderr.String()) {
		line = strings.TrimSpace(line)
		if _, rest, logged := strings.Cut(line, " level=WARN "); logged {
			line = rest
		}
		got = append(got, line)
	}
	ended := `msg="session ended; another follows" queue=q in=1s error="consumer: queue \"q\": counter: x"`
	want := []string{
		`msg="Redis keeps nothing on disk" queue=q`,
		`msg="topology: warning" queue=it's`,
		`for more, run: strikes doctor 'it'\''s'`,
		`msg="topology: another" queue=it's`,
		ended,
		`msg="handlers are cancelled: they did not end within the drain timeout" queue=billing.Prefetch`,
		ended,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestTold: a refusal that follows a warning does not print the same command for more again.
func TestTold(t *testing.T) {
	refused := fmt.Errorf("x: %w", &topology.RefusedError{Queue: "q", Findings: []topology.Finding{{Code: "c"}}})
	log := NewLogger(io.Discard, false)
	for _, want := range []int{1, 0} {
		err := Told(log, refused)
		if n := strings.Count(Complaint(nil, err), "for more, run: strikes doctor q"); n != want || ExitCode(err) != 2 {
			t.Errorf("%d commands, exit %d: %v", n, ExitCode(err), err)
		}
		log.Warn("topology: warning", slog.String("queue", "q"), slog.String("code", "d"))
	}
}
