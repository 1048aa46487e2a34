package doctor

import (
	"strings"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/records"
)

func TestUndecodableFinding(t *testing.T) {
	noon := time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)
	earlierBy := func(d time.Duration) time.Time { return noon.Add(-d) }
	u := records.Undecodable{
		Sessions: 7, Since: earlierBy(time.Minute), Last: earlierBy(3 * time.Second),
		After: "m-4", Holder: "host, pid 7", Error: "its headers " + strings.Repeat("x", 400) + "\nmore",
	}
	judge := func(at time.Time, api string) inspect.Finding {
		c := &Checkup{Need: inspect.Need{Management: api}}
		return c.judgeUndecodable(u, at, "/", "it's")
	}
	const head = `curl -fsS -u 'ops':"${RABBITMQ_PASSWORD:?}" -X POST -H 'content-type: application/json' ` +
		`-d '{"ackmode":"reject_requeue_false","count":1,"encoding":"auto","truncate":100}' 'http://mq:15672/api/queues/%2F/it%27s/get'`
	f := judge(noon, "http://ops:s3cret@mq:15672")
	if f.Severity != inspect.Error || strings.Join(f.Commands, "") != head {
		t.Errorf("finding: %+v", f)
	}
	for _, want := range []string{"7 times since 11:59:00Z, the last time at 11:59:57Z, after message \"m-4\"", "reported by host, pid 7: its headers x", "x…"} {
		if !strings.Contains(f.Seen, want) || strings.Contains(f.Seen, "more") {
			t.Errorf("%q is not in %q", want, f.Seen)
		}
	}
	if f := judge(noon.Add(5*time.Minute), "http://mq:15672"); f.Severity != inspect.Warning || len(f.Commands) > 0 {
		t.Errorf("when it is gone: %+v", f)
	}
	u.Unconverted = true
	if f := judge(noon, "http://mq:15672"); f.Severity != inspect.Error || len(f.Commands) > 0 || !strings.Contains(f.Seen, "cannot convert") {
		t.Errorf("of the broker: %+v", f)
	}
	u.Sessions = 1
	if f := judge(noon, "http://mq:15672"); f.Severity != inspect.Warning {
		t.Errorf("once: %+v", f)
	}
	u.Unconverted = false
	if f := judge(noon, ""); f.Severity != inspect.Error || len(f.Commands) > 0 {
		t.Errorf("without the API's address: %+v", f)
	}
}

func TestPauseFinding(t *testing.T) {
	note := counter.Note{By: "jo", Why: "supplier down\nmore", At: time.Date(2026, 11, 21, 12, 0, 0, 0, time.UTC)}
	f := judgePause(note, "it's")
	if f.Code != "paused" || f.Severity != inspect.Warning || f.Seen != "the queue has been paused since 2026-11-21T12:00:00Z, by jo: supplier down" ||
		!strings.HasSuffix(f.Fix, `run strikes resume 'it'\''s'`) {
		t.Errorf("finding: %+v", f)
	}
	note.By = ""
	if f := judgePause(note, "q"); !strings.Contains(f.Seen, "since 2026-11-21T12:00:00Z: supplier down") {
		t.Errorf("finding: %+v", f)
	}
}
