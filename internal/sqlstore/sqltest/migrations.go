// Package sqltest tests a store in a SQL database: the renewal of long lanes, and migrations.
package sqltest

import (
	"context"
	"strings"
	"testing"

	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servertest"
)

// TestMigrations lets processes write while others migrate. Each finds the tables, or an error that names the command.
func TestMigrations[S counter.Store](t *testing.T, database func(testing.TB) string, open func(testing.TB, string) S,
	migrate func(context.Context, string) error) {
	for range 20 {
		url := database(t)
		var processes errgroup.Group
		for range 4 {
			s := open(t, url)
			processes.Go(func() error { return migrate(t.Context(), url) })
			processes.Go(func() error {
				_, err := s.Save(t.Context(), counter.Queue{Name: "q"},
					counter.Change{Docs: []counter.Doc{{Name: "r:a", Data: "x", Any: true}}})
				if err != nil && !strings.Contains(err.Error(), "run: strikes store migrate") {
					return err
				}
				return nil
			})
		}
		servertest.Need(t, processes.Wait())
	}
}
