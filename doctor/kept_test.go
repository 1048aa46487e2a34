package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
)

func TestPauseFinding(t *testing.T) {
	note := counter.Note{By: "jo", Why: "supplier down\nmore", At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	f := judgePause(note, "it's")
	if f.Code != "paused" || f.Severity != inspect.Warning ||
		f.Seen != "the queue has been paused since 2026-11-21T12:00:00Z, by jo: supplier down…" ||
		!strings.HasSuffix(f.Fix, `run strikes resume 'it'\''s'`) {
		t.Errorf("finding: %+v", f)
	}
	note.By = ""
	if f := judgePause(note, "q"); !strings.Contains(f.Seen, "since 2026-11-21T12:00:00Z: supplier down") {
		t.Errorf("finding: %+v", f)
	}
}
