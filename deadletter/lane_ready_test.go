package deadletter

import (
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// TestReadingsNotTheirLengthTellWhatIsMissing: a dead letter that arrives while the queue is read is not seen. So a
// position is missing only if a reading that began late enough does not find its dead letter.
func TestReadingsNotTheirLengthTellWhatIsMissing(t *testing.T) {
	first := time.Now().Add(-time.Hour)
	for name, tc := range map[string]struct {
		began time.Time // the last reading
		ready bool
	}{
		"one reading of an hour":               {first, false},
		"another that began immediately":       {first.Add(time.Second), false},
		"another that began after the arrival": {first.Add(lingers + time.Second), true},
	} {
		w := &laneWork{laneRead: &laneRead{at: tc.began}, l: Lane{Missing: true, Wait: time.Minute}, begun: first,
			state: &counter.LaneState{Open: []int64{1}}, plan: counter.LanePlan{Missing: []int64{1}}}
		if got := w.isReady(); got != tc.ready {
			t.Errorf("%s: ready %v, want %v", name, got, tc.ready)
		}
	}
}
