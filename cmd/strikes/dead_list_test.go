package main

import (
	"errors"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/render"
	"github.com/strikesmq/strikes/deadletter"
)

// TestForceIsSaidOnce: an error mentions --force once.
func TestForceIsSaidOnce(t *testing.T) {
	q := &dlq{dead: deadletter.Queue{Name: "q.dlq"}, unseen: 1}
	none := func(func(*deadletter.Message, error) bool) {}
	var out strings.Builder
	err := new(deadList).printed(q, deadletter.Filter{IDs: []string{"a"}}, 0, none, render.DeadLetters(&out, false))
	for name, err := range map[string]error{"list": err,
		"show": q.nothing(seek(deadletter.Filter{IDs: []string{"a"}}))} {
		if !errors.Is(err, deadletter.ErrUnsafe) || strings.Count(err.Error(), "--force") != 1 ||
			cli.ExitCode(err) != cli.ExitMisuse {
			t.Errorf("%s: exit code %d, %v", name, cli.ExitCode(err), err)
		}
	}
}

// TestNextCommandIsForTheSameQueue: a command that an error prints reads the dead-letter queue that was named.
func TestNextCommandIsForTheSameQueue(t *testing.T) {
	bad := &deadletter.UndecodableError{Position: 2, Wrong: "its headers"}
	for _, tt := range []struct {
		q    dlq
		want string
	}{
		{dlq{queue: "orders", ready: 3}, " orders"},
		{dlq{queue: "-q", ready: 3}, " -- -q"},
		{dlq{queue: "-q", named: true, ready: 3}, " --dead-letter-queue 'it'\\''s' -- -q"},
	} {
		tt.q.dead.Name = "it's"
		if got, want := tt.q.wayOut(bad).Error(), "strikes dead drop --undecodable --to FILE"+tt.want; !strings.HasSuffix(got,
			want) {
			t.Errorf("%s\nwant %s at its end", got, want)
		}
		unread := *bad
		unread.Unconverted = true
		for want, err := range map[string]error{
			"(strikes dead replay --all" + tt.want + " stops at it)": tt.q.wayOut(&unread),
			"; strikes dead list --groups" + tt.want + " shows":      tt.q.none(seek(deadletter.Filter{Group: "g"})),
		} {
			if got := err.Error(); !strings.Contains(got, want) {
				t.Errorf("%s\nwant %s in it", got, want)
			}
		}
	}
}
