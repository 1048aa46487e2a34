package records

import (
	"fmt"
	"math/rand/v2"
	"os"
	"testing"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/panics"
)

// BenchmarkGroups groups 100,000 dead letters of six reasons on the Redis at REDIS_URL.
func BenchmarkGroups(b *testing.B) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		b.Skip("REDIS_URL names no Redis")
	}
	c, err := counter.Dial(url+"?read_timeout=20s", &counter.Options{Prefix: fmt.Sprintf("strikes-bench-%d", time.Now().UnixNano())})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = c.Close() })
	const dead = 100_000
	texts := []string{
		"POST https://tax.example/v2/rates: 503 Service Unavailable (request %08x)",
		"dial tcp 10.20.3.%d:5432: connect: connection refused",
		`invoice INV-%d: unknown currency "XTS"`,
		"runtime error: index out of range [%d] with length 3",
		`pq: duplicate key value violates unique constraint "invoice_%d_pkey"`,
		"customer %d: context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
	}
	var dying panics.Group
	dying.SetLimit(100)
	for i := range dead {
		dying.Go(func() error {
			m := counter.Message{VHost: "/", Queue: "orders", ID: fmt.Sprintf("0197f7a2-5b3c-7d10-8e1f-%012x", i)}
			reason := fmt.Sprintf(texts[rand.IntN(len(texts))], rand.IntN(100_000))
			_, err := c.Fail(b.Context(), counter.Attempt{Message: m, Token: "a"}, counter.Failure{Cause: counter.CauseFailed, Reason: reason})
			return err
		})
	}
	if err := dying.Wait(); err != nil {
		b.Fatal(err)
	}
	q := &Queue{Store: c.Admin(), VHost: "/", Name: "orders"}
	for b.Loop() {
		groups, err := q.Groups(b.Context(), deadletter.Filter{}, 0)
		if err != nil || groups.Count != dead {
			b.Fatal(groups.Count, err)
		}
	}
}
