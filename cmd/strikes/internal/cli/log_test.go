package cli

import (
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/topology"
)

// TestRemarksAreMadeOnce logs the remarks of two sessions of a consumer.
func TestRemarksAreMadeOnce(t *testing.T) {
	var stderr strings.Builder
	log := NewLogger(&stderr, false, nil)
	for range 2 {
		log.Warn("Redis keeps nothing on disk", "queue", "q")
		log.Warn("topology: warning", slog.String("queue", "it's"), slog.String("code", "c"), slog.String("impact", "w"),
			slog.String("fix", "f"))
		log.Warn("topology: another", slog.String("queue", "it's"), slog.String("code", "d"), slog.String("impact", "x"))
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
		`msg="topology: warning" queue=it's impact=w`,
		`for more, run: strikes doctor 'it'\''s'`,
		`msg="topology: another" queue=it's impact=x`,
		ended,
		`msg="handlers are cancelled: they did not end within the drain timeout" queue=billing.Prefetch`,
		ended,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestMoreIsExaminedAsConsumed: the command for more has the settings of the consumer.
func TestMoreIsExaminedAsConsumed(t *testing.T) {
	cmd, stderr := &cobra.Command{Use: "consume QUEUE"}, new(strings.Builder)
	cmd.Flags().Int("max-retries", 3, "")
	cmd.Flags().Bool("ordered", false, "")
	if err := cmd.ParseFlags([]string{"--ordered", "--max-retries", "50"}); err != nil {
		t.Fatal(err)
	}
	const hint = "for more, run: strikes doctor --max-retries=50 --ordered q"
	refused := fmt.Errorf("x: %w", &topology.RefusedError{Queue: "q", Findings: []topology.Finding{{Code: "c"}}})
	if text := Complaint(cmd, refused); !strings.Contains(text, hint) {
		t.Error(text)
	}
	NewLogger(stderr, false, cmd).Warn("topology: warning", slog.String("queue", "q"), slog.String("code", "d"))
	if !strings.Contains(stderr.String(), hint) {
		t.Error(stderr)
	}
}
