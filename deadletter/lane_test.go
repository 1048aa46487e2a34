package deadletter

import (
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/counter"
)

// TestFirstMissing: a replay that may give up missing positions gives up one at least. Else it would read the
// dead-letter queue again and again.
func TestFirstMissing(t *testing.T) {
	at := func(number int64) []counter.Planned {
		return []counter.Planned{{Position: counter.Position{Since: 1, Number: number}}}
	}
	for name, tc := range map[string]struct {
		open []int64
		plan counter.LanePlan
		want []int64
	}{
		"before the first found": {[]int64{1, 2, 3}, counter.LanePlan{Missing: []int64{1, 3}, Found: at(2)}, []int64{1}},
		"behind a double":        {[]int64{2}, counter.LanePlan{Missing: []int64{2}, Found: at(1)}, []int64{2}},
		"behind one that was replaced": {[]int64{1, 2, 3},
			counter.LanePlan{Missing: []int64{3}, Replaced: []int64{1}, Found: at(2)}, []int64{1}},
		"behind one that may be of another position": {[]int64{1, 2, 3},
			counter.LanePlan{Missing: []int64{3}, Unsure: at(1), Found: at(2)}, []int64{3}},
		"which came during the replay": {[]int64{4}, counter.LanePlan{Missing: []int64{4}}, []int64{}},
	} {
		w := &laneWork{state: &counter.LaneState{Since: 1, Open: tc.open}, plan: tc.plan,
			until: counter.Position{Since: 1, Number: 3}}
		if diff := cmp.Diff(tc.want, w.firstMissing()); diff != "" {
			t.Errorf("%s: %s", name, diff)
		}
	}
}

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
