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
	f := judgePause(&counter.Pause{Note: note}, "it's")
	if f.Code != "paused" || f.Severity != inspect.Warning ||
		f.Seen != "the queue has been paused since 2026-11-21T12:00:00Z, by jo: supplier down…" ||
		!strings.HasSuffix(f.Fix, `run strikes resume 'it'\''s'`) {
		t.Errorf("finding: %+v", f)
	}
	note.By = ""
	if f := judgePause(&counter.Pause{Note: note}, "q"); !strings.Contains(f.Seen,
		"since 2026-11-21T12:00:00Z: supplier down") {
		t.Errorf("finding: %+v", f)
	}
	held := &counter.Pause{Note: note, Holding: &counter.Holding{Message: counter.Message{ID: "m-1"}}}
	if f := judgePause(held, "q"); f.Code != "paused" || !strings.HasPrefix(f.Fix, "decide about message m-1, because a "+
		"resume alone does not end this pause") {
		t.Errorf("finding of an exhausted message: %+v", f)
	}
}

// TestExplainedAbsence: a pause says why the queue has no consumer.
func TestExplainedAbsence(t *testing.T) {
	alone := inspect.Say(inspect.CodeNoConsumer, nil)
	for _, code := range []string{"paused", "partition-idle"} {
		if got := explained([]inspect.Finding{alone, inspect.Say(code, nil)}); len(got) != 1 || got[0].Code != code {
			t.Errorf("with %s: %+v", code, got)
		}
	}
	if got := explained([]inspect.Finding{alone, inspect.Say("exclusive", nil)}); len(got) != 2 {
		t.Errorf("with another finding: %+v", got)
	}
}
