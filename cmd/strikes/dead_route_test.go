package main

import (
	"strings"
	"testing"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/topology"
)

func TestChooseLanding(t *testing.T) {
	type queues = []topology.LandingQueue
	dead, wait, eu := topology.LandingQueue{Name: "dead"}, topology.LandingQueue{Name: "wait", Delay: true}, topology.LandingQueue{Name: "eu", Depends: true}
	behind := topology.LandingQueue{Name: "behind", Behind: true}
	for _, tc := range []struct {
		what  string
		l     topology.Landing
		name  string
		guess string
		err   string
	}{
		{"one", topology.Landing{Queues: queues{dead}}, "dead", "", ""},
		{"one for some keys", topology.Landing{Queues: queues{eu}}, "eu", "", ""},
		{"one that dead-letters on", topology.Landing{Queues: queues{dead, behind}}, "dead", "", ""},
		{"a delay beside it", topology.Landing{Queues: queues{dead, wait}}, "dead", "", ""},
		{"a delay before it", topology.Landing{Queues: queues{wait, behind}}, "behind", "", ""},
		{"a delay that leads back", topology.Landing{Queues: queues{wait}}, "wait", "", ""},
		{"several", topology.Landing{Queues: queues{dead, eu}}, "", "", "several queues: dead, eu (some of them); choose one with --dead-letter-queue"},
		{"unseen", topology.Landing{Guess: "q.dlq", Unseen: "no API"}, "q.dlq", "no API", ""},
		{"broken", topology.Landing{Broken: "nothing is bound"}, "q.dlq", "nothing is bound", ""},
	} {
		got, err := chooseLanding("q", tc.l)
		if tc.err != "" {
			if err == nil || !strings.Contains(err.Error(), tc.err) || cli.ExitCode(err) != cli.ExitMisuse {
				t.Errorf("%s: %v", tc.what, err)
			}
			continue
		}
		if got.name != tc.name || got.guess != tc.guess || err != nil {
			t.Errorf("%s: %+v, %v", tc.what, got, err)
		}
	}
}
