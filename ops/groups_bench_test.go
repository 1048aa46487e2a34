package ops

import (
	"fmt"
	"os"
	"testing"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/panics"
)

// BenchmarkGroups groups 100,000 dead letters of six reasons, in which few or many texts differ, on the Redis at
// REDIS_URL.
func BenchmarkGroups(b *testing.B) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		b.Skip("REDIS_URL names no Redis")
	}
	for _, texts := range []int{10, 1000, 100_000} {
		b.Run(fmt.Sprintf("texts=%d", texts), func(b *testing.B) { benchmarkGroups(b, url, texts) })
	}
}

func benchmarkGroups(b *testing.B, url string, texts int) {
	c, err := counter.Dial(url+"?read_timeout=20s", &counter.Options{Prefix: fmt.Sprintf("strikes-bench-%d", texts)})
	need(b, err)
	b.Cleanup(func() { _ = c.Close() })
	const dead = 100_000
	forms := []string{
		"POST https://tax.example/v2/rates: 503 Service Unavailable (request %08x)",
		"dial tcp 10.20.3.%d:5432: connect: connection refused",
		`invoice INV-%d: unknown currency "XTS"`,
		"runtime error: index out of range [%d] with length 3",
		`pq: duplicate key value violates unique constraint "invoice_%d_pkey"`,
		"customer %d: context deadline exceeded (Client.Timeout exceeded while awaiting headers)",
	}
	q := &Queue{Store: c.Admin(), VHost: "/", Name: "orders"}
	if had, err := q.Store.CountDead(b.Context(), q.VHost, q.Name); err != nil || had == 0 { // a run before filled it
		var dying panics.Group
		dying.SetLimit(100)
		for i := range dead {
			dying.Go(func() error {
				m := counter.Message{VHost: q.VHost, Queue: q.Name, ID: fmt.Sprintf("0197f7a2-5b3c-7d10-8e1f-%012x", i)}
				n := i * 7919 % texts
				failure := counter.Failure{Cause: counter.CauseFailed, Reason: fmt.Sprintf(forms[n%len(forms)], n)}
				_, err := c.Fail(b.Context(), counter.Attempt{Message: m, Token: "a"}, failure)
				return err
			})
		}
		need(b, dying.Wait())
	}
	for b.Loop() {
		groups, err := q.Groups(b.Context(), DeadQuery{})
		if err != nil || groups.Count != dead {
			b.Fatal(groups.Count, err)
		}
	}
}
