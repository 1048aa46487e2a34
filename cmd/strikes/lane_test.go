package main

import (
	"strings"
	"testing"

	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

// TestLaneAdviceNamesTheVerb: the advice after a drop that stopped does not replay the messages that were to be
// dropped.
func TestLaneAdviceNamesTheVerb(t *testing.T) {
	for _, tt := range []struct {
		verb string
		err  error
		want string
	}{
		{ops.VerbDrop, deadletter.ErrLaneWaiting, "strikes lane drop q 'a b' --missing --to FILE gives it up"},
		{ops.VerbRelease, deadletter.ErrLaneWaiting, "strikes lane release q 'a b' --missing --to FILE gives it up"},
		{ops.VerbReplay, deadletter.ErrLaneWaiting, "strikes lane release q 'a b' --missing --to FILE gives it up"},
		{ops.VerbDrop, deadletter.ErrLaneMissing, "strikes lane drop q 'a b' --missing --to FILE drops the lane without it"},
		{ops.VerbReplay, deadletter.ErrLaneMissing, "strikes lane replay q 'a b' --missing replays the lane without it"},
	} {
		if got := explainLane(tt.err, tt.verb, "q", "a b"); !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.verb, got, tt.want)
		}
	}
}
