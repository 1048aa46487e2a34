package ops

import (
	"errors"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/doctor"
)

func TestChooseLanding(t *testing.T) {
	type queues = []doctor.LandingQueue
	dead, wait, eu := doctor.LandingQueue{Name: "dead"}, doctor.LandingQueue{Name: "wait", Delay: true},
		doctor.LandingQueue{Name: "eu", Depends: true}
	behind := doctor.LandingQueue{Name: "behind", Behind: true}
	for _, tc := range []struct {
		what  string
		l     doctor.Landing
		name  string
		guess string
		err   string
	}{
		{"one", doctor.Landing{Queues: queues{dead}}, "dead", "", ""},
		{"one for some keys", doctor.Landing{Queues: queues{eu}}, "eu", "", ""},
		{"one that dead-letters on", doctor.Landing{Queues: queues{dead, behind}}, "dead", "", ""},
		{"a delay beside it", doctor.Landing{Queues: queues{dead, wait}}, "dead", "", ""},
		{"a delay before it", doctor.Landing{Queues: queues{wait, behind}}, "behind", "", ""},
		{"a delay that leads back", doctor.Landing{Queues: queues{wait}}, "wait", "", ""},
		{"several", doctor.Landing{Queues: queues{dead, eu}}, "", "", "several queues: \"dead\", \"eu\" (some of them)"},
		{"unseen", doctor.Landing{Unseen: "no API"}, "q.dlq", "no API", ""},
		{"broken", doctor.Landing{Broken: "nothing is bound"}, "q.dlq", "nothing is bound", ""},
	} {
		got, err := chooseLanding("q", tc.l)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || !errors.As(err, new(*AmbiguousError)) {
				t.Errorf("%s: %v", tc.what, err)
			}
			continue
		}
		if got.Name != tc.name || assumed(got) != tc.guess || err != nil {
			t.Errorf("%s: %+v, %v", tc.what, got, err)
		}
	}
}

func assumed(q DeadLetterQueue) string {
	if q.Assumed == nil {
		return ""
	}
	return q.Assumed.Error()
}
