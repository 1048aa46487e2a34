package counter

import (
	"fmt"
	"os"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
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
			need(b, errOf(c.Fail(b.Context(), attempt(m, "a"), again)))
		}
	}
	for b.Loop() {
		need(b, errOf(c.Admin().Summaries(b.Context(), "/", queues, time.Minute)))
	}
}

// BenchmarkDead lists 100,000 dead letters on the Redis at REDIS_URL.
func BenchmarkDead(b *testing.B) {
	url := os.Getenv("REDIS_URL")
	if url == "" {
		b.Skip("REDIS_URL names no Redis")
	}
	c := dialTest(b, url)
	const n = 100_000
	at := time.Now().Add(time.Hour).UnixMilli()
	for from := 0; from < n; from += 1000 {
		p := c.rdb.Pipeline()
		for i := from; i < from+1000; i++ {
			m := message(fmt.Sprint(i))
			k := c.opts.keys(m)
			reason := fmt.Sprintf("no stock of article %d in warehouse %d", i, i%7)
			text := fmt.Sprintf("4 0 4 1 0 exhausted %d 0 0 %d 9 failed . . 0 %d 4 0 0 .;a=f;b=f;c=f;d=f %d 0 4 0 0\n"+
				"%shost%s", at, at-7200000, at-7200000, len(m.ID), m.ID, reason)
			p.Set(b.Context(), k.record, text, time.Hour)
			p.ZAdd(b.Context(), k.dead, redis.Z{Score: float64(at + int64(i/9)), Member: member(m.ID, "")})
		}
		need(b, errOf(p.Exec(b.Context())))
	}
	a := c.Admin()
	b.Run("list", func(b *testing.B) {
		for b.Loop() {
			seen := 0
			for _, err := range a.Dead(b.Context(), "/", "orders", "") {
				if seen++; err != nil {
					b.Fatal(err)
				}
			}
			if seen != n {
				b.Fatal(seen)
			}
		}
	})
	b.Run("reasons", func(b *testing.B) {
		for b.Loop() {
			seen := 0
			for part, err := range a.DeadReasons(b.Context(), "/", "orders", 0) {
				if seen += len(part); err != nil {
					b.Fatal(err)
				}
			}
			if seen != n {
				b.Fatal(seen)
			}
		}
	})
	b.Run("first page", func(b *testing.B) {
		for b.Loop() {
			seen := 0
			for range a.Dead(b.Context(), "/", "orders", "") {
				if seen++; seen == 50 {
					break
				}
			}
		}
	})
	b.Run("get", func(b *testing.B) {
		for b.Loop() {
			if r, err := a.Get(b.Context(), "/", "orders", "77777"); err != nil || len(r) != 1 {
				b.Fatal(r, err)
			}
		}
	})
	b.Run("tombstones", func(b *testing.B) {
		for b.Loop() {
			need(b, errOf(a.Tombstones(b.Context(), "/", "orders")))
		}
	})
	b.Run("note removed", func(b *testing.B) {
		for b.Loop() {
			var all []Message
			for i := range 10_000 {
				all = append(all, message(fmt.Sprint(i)))
			}
			need(b, a.NoteRemoved(b.Context(), "/", "orders", all))
		}
	})
}
