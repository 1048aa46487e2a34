package main

import (
	"testing"

	"github.com/strikesmq/strikes/deadletter"
)

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
