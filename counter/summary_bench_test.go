package counter

import (
	"fmt"
	"os"
	"testing"
	"time"
)

// BenchmarkSummaries summarises 1,000 queues, of which 100 have a failing message, on the Redis at REDIS_URL.
func BenchmarkSummaries(b *testing.B) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		b.Skip("REDIS_URL names no Redis")
	}
	c := dialTest(b, url)
	queues := make([]string, 1000)
	for i := range queues {
		queues[i] = fmt.Sprint("queue", i)
		if m := (Message{VHost: "/", Queue: queues[i], ID: "x"}); i%10 == 0 {
			if _, err := c.Fail(b.Context(), attempt(m, "a"), again); err != nil {
				b.Fatal(err)
			}
		}
	}
	for b.Loop() {
		if _, err := c.Admin().Summaries(b.Context(), "/", queues, time.Minute); err != nil {
			b.Fatal(err)
		}
	}
}
