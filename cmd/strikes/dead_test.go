package main

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/ops"
)

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
			"; strikes dead list --groups" + tt.want + " shows":      tt.q.nothing(seek(deadletter.Filter{Group: "g"})),
		} {
			if got := err.Error(); !strings.Contains(got, want) {
				t.Errorf("%s\nwant %s in it", got, want)
			}
		}
	}
}

// TestFileOfOneDropAtATime opens a file for a second drop, which must neither write to it nor lose it to the first.
func TestFileOfOneDropAtATime(t *testing.T) {
	name := filepath.Join(t.TempDir(), "kept")
	first, err := openKeep(name, "a.dlq")
	need(t, err)
	_, err = openKeep(name, "b.dlq")
	if cli.ExitCode(err) != cli.ExitMisuse || !strings.Contains(err.Error(), "another command writes to "+name) {
		t.Errorf("%v, want a refusal that names the file", err)
	}
	need(t, first.finish())
	if _, err := os.Stat(name); !os.IsNotExist(err) {
		t.Errorf("%v, want no file for nothing", err)
	}

	moved, err := openKeep(name, "a.dlq")
	need(t, err)
	need(t, os.Rename(name, name+".old"))
	second, err := openKeep(name, "b.dlq")
	need(t, err)
	need(t, second.keepLine([]byte("{}")))
	need(t, second.finish())
	need(t, moved.finish())
	if got, err := os.ReadFile(name); string(got) != "{}\n" {
		t.Errorf("the file holds %q (%v), want the line of the second drop", got, err)
	}

	need(t, os.WriteFile(name, nil, 0o600))
	empty, err := openKeep(name, "a.dlq")
	need(t, err)
	need(t, empty.finish())
	if _, err := os.Stat(name); err != nil {
		t.Errorf("%v, want the empty file that was there", err)
	}
}

// TestDropsIntoOneFile has several drops open one file at once. One writes a line, and the others find nothing.
func TestDropsIntoOneFile(t *testing.T) {
	dir := t.TempDir()
	for round := range 100 {
		name := filepath.Join(dir, strconv.Itoa(round))
		var wg sync.WaitGroup
		drop := func(line string) {
			file, err := openKeep(name, "q.dlq")
			for err != nil && line != "" {
				file, err = openKeep(name, "q.dlq")
			}
			if err == nil && line != "" {
				err = errors.Join(file.keepLine([]byte(line)), file.finish())
			} else if err == nil {
				err = file.finish()
			}
			if err != nil && cli.ExitCode(err) != cli.ExitMisuse {
				t.Error(err)
			}
		}
		for range 4 {
			wg.Go(func() {
				for range 5 {
					drop("")
				}
			})
		}
		wg.Go(func() { drop("{}") })
		wg.Wait()
		if kept, err := os.ReadFile(name); string(kept) != "{}\n" {
			t.Fatalf("round %d: the file holds %q (%v), want the line that was on disk", round, kept, err)
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

// TestGoOn: a repeated command takes no more dead letters than the interrupted one was given.
func TestGoOn(t *testing.T) {
	for _, tt := range []struct {
		most, done int
		want       string
	}{
		{0, 4, "interrupted; to go on, run the same command"},
		{10, 4, "interrupted; to go on, run the same command with --max 6"},
		{10, 10, context.Canceled.Error()},
	} {
		c := deadChange{most: tt.most}
		if got := c.goOn(context.Canceled, tt.done); got.Error() != tt.want {
			t.Errorf("%d of %d: %v, want %s", tt.done, tt.most, got, tt.want)
		}
	}
}

// TestLaneAdviceNamesTheVerb: the advice after a drop that stopped does not replay the messages that were to be
// dropped.
func TestLaneAdviceNamesTheVerb(t *testing.T) {
	for _, tt := range []struct {
		verb string
		err  error
		want string
	}{
		{ops.VerbDrop, deadletter.ErrLaneWaiting, "strikes lane drop --missing --to FILE q 'a b' gives it up"},
		{ops.VerbRelease, deadletter.ErrLaneWaiting, "strikes lane release --missing --to FILE q 'a b' gives it up"},
		{ops.VerbReplay, deadletter.ErrLaneWaiting, "strikes lane release --missing --to FILE q 'a b' gives it up"},
		{ops.VerbDrop, deadletter.ErrLaneMissing, "strikes lane drop --missing --to FILE q 'a b' drops the lane without it"},
		{ops.VerbReplay, deadletter.ErrLaneWaiting, "then run strikes lane replay q 'a b'; "},
		{ops.VerbReplay, deadletter.ErrLaneBusy, "then run strikes lane replay q 'a b'"},
		{ops.VerbReplay, context.Canceled, "interrupted; to go on, run strikes lane replay q 'a b'"},
		{ops.VerbDrop, context.Canceled, "interrupted; to go on, run the same command"},
		{ops.VerbReplay, deadletter.ErrLaneMissing, "strikes lane replay --missing q 'a b' replays the lane without it"},
	} {
		if got := explainLane(tt.err, tt.verb, "q", "a b"); !strings.Contains(got.Error(), tt.want) {
			t.Errorf("%s: %v, want %s", tt.verb, got, tt.want)
		}
	}
}

// TestLaneAdviceNamesTheLane: a replay of all lanes may end with the error of another lane than the last one. No flag
// comes after the -- before a name that begins with a dash.
func TestLaneAdviceNamesTheLane(t *testing.T) {
	err := &deadletter.LaneError{Lane: "-a b", Err: deadletter.ErrLaneWaiting}
	got := explainLane(err, ops.VerbReplay, "q", "c").Error()
	for _, want := range []string{"run strikes lane replay -- q '-a b'; ",
		"strikes lane release --missing --to FILE -- q '-a b' gives it up"} {
		if !strings.Contains(got, want) {
			t.Errorf("%s\nwant %s", got, want)
		}
	}
}
