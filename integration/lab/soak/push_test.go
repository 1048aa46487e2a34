package soak

import (
	"errors"
	"path/filepath"
	"slices"
	"syscall"
	"testing"

	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/internal/audit"
)

// TestSessionsOfAPusher: a session that ended before the process was told to stop was lost, and one that another
// follows; not one that ends with a clean stop.
func TestSessionsOfAPusher(t *testing.T) {
	for name, tc := range map[string]struct {
		play func(p *pusher)
		want []audit.Kind
	}{
		"clean": {func(p *pusher) {
			left := p.joined()
			p.told(syscall.SIGTERM)
			left()
			p.exited(1, nil)
		}, []audit.Kind{audit.Opened}},
		"lost, then stopped": {func(p *pusher) { left := p.joined(); left(); p.told(syscall.SIGTERM); p.exited(1, nil) },
			[]audit.Kind{audit.Opened, audit.Lost}},
		"lost, then another": {func(p *pusher) {
			p.joined()()
			left := p.joined()
			p.told(syscall.SIGTERM)
			left()
			p.exited(1, nil)
		},
			[]audit.Kind{audit.Opened, audit.Lost, audit.Opened}},
		"killed": {func(p *pusher) {
			p.joined()()
			p.exited(1, errors.New("killed"))
		}, []audit.Kind{audit.Opened, audit.Lost}},
	} {
		dir := filepath.Clean(t.TempDir())
		log, err := ledger.Append(dir, 0)
		need(t, err)
		tc.play(&pusher{log: log, number: 1})
		need(t, log.Close())
		events, err := ledger.Read(dir)
		need(t, err)
		var got []audit.Kind
		for _, e := range events {
			got = append(got, e.Kind)
		}
		if !slices.Equal(got, tc.want) {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}
