package postgres

import (
	"fmt"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

// BenchmarkFail takes START and FAIL of 64 failing messages at a time on PostgreSQL and on Redis, in turns, and prints
// the rate on PostgreSQL as a part of that on Redis. Each server writes to the disk as its documents advise.
func BenchmarkFail(b *testing.B) {
	database := servertest.Own(b, servers.StartPostgreSQL, servers.DatabaseOptions{Args: []string{"-c", "fsync=on"}})
	url := "postgres://postgres@" + database.Addr + "/postgres?sslmode=disable"
	if err := Migrate(b.Context(), url); err != nil {
		b.Fatal(err)
	}
	redis, err := counter.Dial(servertest.PatientStoreURL(b), &counter.Options{Prefix: fmt.Sprint("bench-", time.Now().UnixNano())})
	if err != nil {
		b.Fatal(err)
	}
	defer redis.Close()
	for _, mode := range []string{"", "&default_query_exec_mode=cache_statement"} {
		of := []*counter.Counter{counter.Over(open(b, url+mode), nil), redis}
		var took [2]time.Duration
		for round := range 20 {
			for i, c := range of {
				began := time.Now()
				failAll(b, c, fmt.Sprint(mode, round))
				took[i] += time.Since(began)
			}
		}
		fmt.Printf("failing path%s: PostgreSQL %.2f of Redis (%v, %v)\n", mode, float64(took[1])/float64(took[0]), took[0],
			took[1])
	}
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
