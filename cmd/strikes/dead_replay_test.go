package main

import (
	"testing"

	"github.com/strikesmq/strikes/deadletter"
)

func TestCutOff(t *testing.T) {
	picked := deadletter.Filter{Reason: "no stock"}
	for name, tc := range map[string]struct {
		filter              deadletter.Filter
		window, done, again int
		want                bool
	}{
		"nothing handed out":  {deadletter.Filter{}, 1, 9, 0, false},
		"two windows":         {deadletter.Filter{}, 1, 9, 2, true},
		"two large ones":      {deadletter.Filter{}, 10, 90, 20, true},
		"one":                 {deadletter.Filter{}, 1, 9, 1, true},
		"more, so a look":     {deadletter.Filter{}, 1, 9, 3, false},
		"all: a look, or 4.0": {deadletter.Filter{}, 10, 9, 9, false},
		"a choice is a look":  {picked, 1, 9, 2, false},
	} {
		r, did := deadletter.Replay{Filter: tc.filter, Window: tc.window}, deadletter.Result{Done: tc.done,
			PossibleDuplicateCount: tc.again}
		if got := cutOff(r, did); got != tc.want {
			t.Errorf("%s: %v", name, got)
		}
	}
}

// TestFilterText: no id reads as a filter of the console, which offers to resume a replay that was cut off.
func TestFilterText(t *testing.T) {
	for want, f := range map[string]deadletter.Filter{
		"--all": {}, "order-17 2 --kind failed": {IDs: []string{"order-17", "2"}, Kind: "failed"},
		`"all"`: {IDs: []string{"all"}}, `"group=34fqn6qw"`: {IDs: []string{"group=34fqn6qw"}},
	} {
		if got := filterText(f, 0); got != want {
			t.Errorf("%q, want %q", got, want)
		}
	}
}
