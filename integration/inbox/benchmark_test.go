package inbox

import (
	"strconv"
	"testing"
	"time"

	"github.com/strikesmq/strikes/consumer"
)

// BenchmarkInbox handles 100 messages an operation through an inbox, and 100 with the same work in a plain
// transaction, one after the other in turn. The work is one INSERT, and the database writes each COMMIT to the disk.
func BenchmarkInbox(b *testing.B) {
	for _, s := range []Subject{pgx, sqlPgx, mariaDB} {
		b.Run(s.Name, s.benchmark)
	}
}

func (s Subject) benchmark(b *testing.B) {
	bench := newBench(b, s, s.Durable(b))
	number := 0
	handle := func(h consumer.Handler) time.Duration {
		number++
		d := message(strconv.Itoa(number))
		d.Redelivered = false
		began := time.Now()
		if got, err := deliver(b.Context(), patience, h, d, nil); got != "[ack]" {
			b.Fatal(got, err)
		}
		return time.Since(began)
	}
	inbox, plain := bench.handler(bench.effect), bench.db.Plain(bench.effect)
	handle(inbox)
	handle(plain)
	var of struct{ inbox, plain time.Duration }
	for b.Loop() {
		for i := range 100 {
			if i%2 == 0 {
				of.inbox += handle(inbox)
				of.plain += handle(plain)
			} else {
				of.plain += handle(plain)
				of.inbox += handle(inbox)
			}
		}
	}
	each := func(d time.Duration) float64 { return float64(d.Microseconds()) / float64(100*b.N) }
	b.ReportMetric(0, "ns/op")
	b.ReportMetric(each(of.inbox), "µs/inbox")
	b.ReportMetric(each(of.plain), "µs/plain")
	b.ReportMetric(float64(of.inbox)/float64(of.plain), "ratio")
}
