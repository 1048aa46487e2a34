package soak

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"
	"time"

	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/work"
)

// TestSessionsOfAPusher: a session that ended before the process was told to stop was lost, and one that another
// follows; not one that ends with a clean stop.
func TestSessionsOfAPusher(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(p *pusher)
		want []ledger.Kind
	}{
		"clean": {func(p *pusher) {
			left := p.joined()
			p.told(syscall.SIGTERM)
			left()
			p.exited(1, nil)
		}, []ledger.Kind{ledger.Opened}},
		"lost, then stopped": {func(p *pusher) { left := p.joined(); left(); p.told(syscall.SIGTERM); p.exited(1, nil) },
			[]ledger.Kind{ledger.Opened, ledger.Lost}},
		"lost, then another": {func(p *pusher) {
			p.joined()()
			left := p.joined()
			p.told(syscall.SIGTERM)
			left()
			p.exited(1, nil)
		},
			[]ledger.Kind{ledger.Opened, ledger.Lost, ledger.Opened}},
		"killed": {func(p *pusher) {
			p.joined()()
			p.exited(1, errors.New("killed"))
		}, []ledger.Kind{ledger.Opened, ledger.Lost}},
	} {
		dir := filepath.Clean(t.TempDir())
		log, err := ledger.Append(dir, 0)
		need(t, err)
		tc.play(&pusher{log: log, number: 1})
		need(t, log.Close())
		events, err := ledger.Read(dir)
		need(t, err)
		var got []ledger.Kind
		for _, e := range events {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestAnswer(t *testing.T) {
	for _, tc := range []struct {
		do      string
		err     error
		outcome string
		status  int
	}{
		{ledger.Succeed, nil, ledger.OK, 204}, {ledger.Reject, work.ErrJob, ledger.Rejected, 422},
		{ledger.Panic, work.ErrJob, ledger.Panicked, 500},
		{ledger.Poison, work.ErrJob, ledger.Failed, 500},
	} {
		if outcome, status := answer(work.Job{Do: tc.do}, tc.err); outcome != tc.outcome || status != tc.status {
			t.Errorf("%s: %s, %d", tc.do, outcome, status)
		}
	}
	if hungUp(1900*time.Millisecond, 2*time.Second) != ledger.TimedOut || hungUp(10*time.Millisecond,
		2*time.Second) != ledger.Cancelled {
		t.Error("a request that was ended at its deadline, or before")
	}
}
