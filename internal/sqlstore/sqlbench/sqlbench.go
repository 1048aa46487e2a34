// Package sqlbench tests and measures a store in a SQL database: its failing path beside that of Redis, the renewal
// of long lanes, and migrations.
package sqlbench

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servertest"
)

// Fail takes START and FAIL of 64 failing messages at a time on a Store and on Redis, in turns, and prints the rate on
// the Store as a part of that on Redis.
func Fail(b *testing.B, name string, store counter.Store) {
	redis, err := counter.Dial(servertest.PatientStoreURL(b), &counter.Options{
		Prefix: fmt.Sprint("bench-", time.Now().UnixNano())})
	if err != nil {
		b.Fatal(err)
	}
	defer redis.Close()
	of := []*counter.Counter{counter.Over(store, nil), redis}
	var took [2]time.Duration
	for round := range 20 {
		for i, c := range of {
			began := time.Now()
			failAll(b, c, fmt.Sprint(name, round))
			took[i] += time.Since(began)
		}
	}
	//nolint:forbidigo // a line of the benchmark
	fmt.Printf("failing path: %s %.2f of Redis (%v, %v)\n", name, float64(took[1])/float64(took[0]), took[0], took[1])
}

func failAll(b *testing.B, c *counter.Counter, round string) {
	var failing errgroup.Group
	for i := range 64 {
		failing.Go(func() error {
			for n := range 10 {
				a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: "bench", ID: fmt.Sprint(round, ":", i)},
					Token: fmt.Sprintf("%d-%d", i, n), Consumer: "bench", Received: time.Now()}
				if n > 0 {
					if _, err := c.Start(b.Context(), a, counter.ModeShared, 20); err != nil {
						return err
					}
				}
				if _, err := c.Fail(b.Context(), a, counter.Failure{Limit: 20, Reason: "boom"}); err != nil {
					return err
				}
			}
			return nil
		})
	}
	if err := failing.Wait(); err != nil {
		b.Fatal(err)
	}
}

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
