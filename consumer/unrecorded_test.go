package consumer

import (
	"bytes"
	"log/slog"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/fingerprint"
)

// TestUnrecordedReasonIsLogged: of a message without an id nothing but the log keeps why it was dead-lettered.
func TestUnrecordedReasonIsLogged(t *testing.T) {
	for name, tc := range map[string]struct {
		id, want    string
		redelivered bool
		handler     Handler
	}{
		"failed":          {"", "boom", false, boom},
		"redelivered":     {"", "no id", true, ok},
		"handled":         {"", "", false, ok},
		"counted instead": {"m1", "", false, boom},
	} {
		var log bytes.Buffer
		b := newBench()
		b.MaxRetries = -1
		b.Logger = slog.New(slog.NewTextHandler(&log, &slog.HandlerOptions{Level: slog.LevelWarn}))
		d := b.delivery(tc.redelivered)
		d.MessageId, d.Body = tc.id, []byte("secret")
		if _, err := b.Handle(t.Context(), d, tc.handler); err != nil {
			t.Fatalf("%s: %v", name, err)
		}
		line := log.String()
		if tc.want == "" {
			if line != "" {
				t.Errorf("%s: %s", name, line)
			}
			continue
		}
		for _, want := range []string{"level=WARN", "queue=orders", fingerprint.Of("", "", "", d.Body), tc.want} {
			if !strings.Contains(line, want) || strings.Contains(line, "secret") {
				t.Errorf("%s: %q lacks %q, or has the body", name, line, want)
			}
		}
	}
}
