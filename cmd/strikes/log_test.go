package main

import (
	"errors"
	"log/slog"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestRemarksAreMadeOnce logs what two sessions of a consumer do.
func TestRemarksAreMadeOnce(t *testing.T) {
	var stderr output
	log := (&app{streams: streams{stderr: &stderr}}).logger(false)
	for range 2 {
		log.Warn("Redis keeps nothing on disk", "queue", "q")
		log.Warn("topology: nobody sees", slog.String("queue", "it's"), slog.String("code", "c"), slog.String("why", "w"), slog.String("fix", "f"))
		log.Warn("session ended; another follows", "queue", "q", "in", "1s", "error", errors.New(`consumer: queue "q": counter: x`))
		log.Warn("handlers are cancelled: they did not end within the DrainTimeout", "queue", "q")
	}
	var got []string
	for line := range strings.Lines(stderr.String()) {
		_, rest, _ := strings.Cut(strings.TrimSpace(line), " level=WARN ")
		got = append(got, rest)
	}
	ended := `msg="session ended; another follows" queue=q in=1s error="queue \"q\": x"`
	want := []string{
		`msg="Redis keeps nothing on disk" queue=q`,
		`msg="nobody sees" more="strikes doctor 'it'\\''s'"`,
		ended,
		`msg="handlers are cancelled: they did not end within --drain-timeout" queue=q`,
		ended,
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}
