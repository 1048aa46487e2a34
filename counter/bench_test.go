package counter

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net/url"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/counter/rules"
)

// The benchmarks need a Redis that is theirs alone: REDIS_URL, and the database after the one it names is emptied.
// Those that compare run both sides in turn, several times, and report the ratio of the medians; the time that they
// report besides is of a round of both.
//
//	REDIS_URL=redis://127.0.0.1:6379/9 go test ./counter -run '^$' -bench . -benchtime 1x

const (
	benchCallers = 32
	benchOps     = 2_000
	benchRounds  = 21
)

func benchCounter(b *testing.B) *Counter {
	b.Helper()
	url := os.Getenv("REDIS_URL")
	if url == "" {
		b.Skip("no REDIS_URL")
	}
	return dialTest(b, url)
}

// benchID is as long as a UUID.
func benchID(i int64) string { return fmt.Sprintf("0197f7a2-5b3c-7d10-8e1f-%012x", i) }

func benchFail(b *testing.B, c *Counter, id, run int64) {
	a := Attempt{Message: message(benchID(id)), Token: "Ab1Cd2Ef" + strconv.FormatInt(run, 36),
		Consumer: "worker-1.example.com, pid 12345"}
	if _, err := c.Fail(context.Background(), a, Failure{Limit: 1000, Wait: time.Second,
		Reason: "connection refused by upstream service 1"}); err != nil {
		b.Error(err)
	}
}

// each calls do n times, from so many callers, and returns how long that took.
func each(callers, n int, do func()) time.Duration {
	var left atomic.Int64
	left.Store(int64(n))
	var all sync.WaitGroup
	begin := time.Now()
	for range callers {
		all.Go(func() {
			for left.Add(-1) >= 0 {
				do()
			}
		})
	}
	all.Wait()
	return time.Since(begin)
}

// against reports how many times the speed of the second the first has.
func against(b *testing.B, unit string, first, second func() time.Duration) {
	b.Helper()
	var ones, twos []time.Duration
	for b.Loop() {
		for round := range benchRounds + 1 {
			one, two := first(), second()
			if round > 0 { // the first warms up
				ones, twos = append(ones, one), append(twos, two)
			}
		}
	}
	b.ReportMetric(float64(median(twos))/float64(median(ones)), unit)
}

func median[T cmp.Ordered](of []T) T {
	slices.Sort(of)
	return of[len(of)/2]
}

// BenchmarkMillion compares a step on a record that is one of a million with a step on one of a thousand. Each is
// in a database of its own, and each record counts one step only, at random.
func BenchmarkMillion(b *testing.B) {
	few := benchCounter(b)
	many := dialTest(b, elsewhere(b))
	b.Cleanup(func() { many.rdb.FlushDB(context.Background()) })
	const million, thousand = 1_000_000, 1_000
	populate(b, many, million)
	order, next := rand.Perm(million), 0
	against(b, "x-of-a-thousand", func() time.Duration {
		var at atomic.Int64
		at.Store(int64(next))
		next += thousand
		return each(benchCallers, thousand, func() { benchFail(b, many, int64(order[at.Add(1)-1]), 2) })
	}, func() time.Duration {
		populate(b, few, thousand)
		var at atomic.Int64
		return each(benchCallers, thousand, func() { benchFail(b, few, at.Add(1)-1, 2) })
	})
}

// elsewhere is the next database.
func elsewhere(b *testing.B) string {
	b.Helper()
	u, err := url.Parse(os.Getenv("REDIS_URL"))
	need(b, err)
	u.Path = fmt.Sprint("/", number(strings.Trim(u.Path, "/"))+1)
	return u.String()
}

// clone writes records like the first key's, of the members that are its arguments.
var clone = redis.NewScript(`
local text = redis.call('GET', KEYS[1])
local queue = string.sub(KEYS[2], 1, -6)
for i = 2, #ARGV do
  redis.call('SET', queue .. 'r:' .. ARGV[i], text, 'PX', 604800000)
  redis.call('ZADD', KEYS[2], ARGV[1] + i, ARGV[i])
end`)

// populate makes n records with one failed attempt.
func populate(b *testing.B, c *Counter, n int) {
	b.Helper()
	c.rdb.Del(b.Context(), c.opts.keys(message(benchID(0))).record)
	benchFail(b, c, 0, 1)
	c.age(b, time.Minute, message(benchID(0))) // so that the next failed attempt moves a record in the index
	k := c.opts.keys(message(benchID(0)))
	for from := 0; from < n; from += 1000 {
		args := []any{time.Now().Add(DefaultTTL).UnixMilli()}
		for i := range min(1000, n-from) {
			args = append(args, member(benchID(int64(from+i)), ""))
		}
		if err := clone.Run(b.Context(), c.rdb, []string{k.record, k.index}, args...).Err(); err != nil &&
			!errors.Is(err, redis.Nil) {
			b.Fatal(err)
		}
	}
}

// BenchmarkMemory measures the memory of the server for a counter, its entry in the index included.
func BenchmarkMemory(b *testing.B) {
	const counters = 10_000
	for failures := 1; failures <= 4; failures++ {
		b.Run(fmt.Sprintf("failures=%d", failures), func(b *testing.B) {
			c := benchCounter(b)
			var used int64
			for b.Loop() {
				before := usedMemory(b, c)
				for run := range int64(failures) {
					var at atomic.Int64
					each(4*benchCallers, counters, func() { benchFail(b, c, at.Add(1), 1_000_000+run) })
				}
				used = usedMemory(b, c) - before
			}
			b.ReportMetric(float64(used)/counters, "B/counter")
		})
	}
}

// BenchmarkMemorySuccess measures the memory that a redelivered message takes for ten minutes after it was handled.
func BenchmarkMemorySuccess(b *testing.B) {
	const messages = 100_000
	c := benchCounter(b)
	var used int64
	for b.Loop() {
		before := usedMemory(b, c)
		var at atomic.Int64
		each(4*benchCallers, messages, func() {
			n := at.Add(1)
			a := Attempt{Message: message(benchID(n)), Token: "Ab1Cd2Ef-" + strconv.FormatInt(n, 36),
				Consumer: "worker-1.example.com, pid 12345"}
			if _, err := c.Start(b.Context(), a, rules.ModeShared, 4); err != nil {
				b.Error(err)
			}
			if err := c.End(b.Context(), a, true); err != nil {
				b.Error(err)
			}
		})
		used = usedMemory(b, c) - before
	}
	b.ReportMetric(float64(used)/messages, "B/message")
}

func usedMemory(b *testing.B, c *Counter) int64 {
	b.Helper()
	info, err := c.rdb.Info(b.Context(), "memory").Result()
	need(b, err)
	return number(serverInfo{text: info}.field("used_memory"))
}

// BenchmarkServerCPU is the CPU time of each step, of the server and of the client. Its steps share calls, or are sent
// alone. Each message fails twice, and succeeds in an isolated attempt.
func BenchmarkServerCPU(b *testing.B) {
	fail := func(c *Counter, a Attempt) error {
		f := Failure{Limit: 1000, Reason: "connection refused by upstream service 1"}
		return errOf(c.Fail(context.Background(), a, f))
	}
	start := func(mode rules.Mode) func(*Counter, Attempt) error {
		return func(c *Counter, a Attempt) error { return errOf(c.Start(context.Background(), a, mode, 1000)) }
	}
	steps := []struct {
		name    string
		attempt int
		take    func(*Counter, Attempt) error
	}{
		{"FAIL", 1, fail}, {"START", 2, start(rules.ModeShared)}, {"second-FAIL", 2, fail},
		{"START-isolated", 3, start(rules.ModeIsolated)},
		{"BEGUN", 3, func(c *Counter, a Attempt) error { return errOf(c.Begun(context.Background(), a)) }},
		{"END", 3, func(c *Counter, a Attempt) error { return c.End(context.Background(), a, true) }},
	}
	for _, callers := range []int{1, benchCallers} {
		b.Run(fmt.Sprintf("callers=%d", callers), func(b *testing.B) {
			const n = 10_000
			c := benchCounter(b)
			used, own := make([]time.Duration, len(steps)), make([]time.Duration, len(steps))
			var last atomic.Int64
			for b.Loop() {
				first := last.Load()
				for i, step := range steps {
					last.Store(first)
					before, mine := serverCPU(b, c), ownCPU()
					each(callers, n, func() {
						id := last.Add(1)
						a := Attempt{Message: message(benchID(id)), Consumer: "worker-1.example.com, pid 12345",
							Token: fmt.Sprintf("Ab1Cd2Ef-%s-%d", strconv.FormatInt(id, 36), step.attempt)}
						if err := step.take(c, a); err != nil {
							b.Error(err)
						}
					})
					used[i], own[i] = used[i]+serverCPU(b, c)-before, own[i]+ownCPU()-mine
				}
			}
			for i, step := range steps {
				b.ReportMetric(float64(used[i].Nanoseconds())/1e3/float64(last.Load()), "server-µs/"+step.name)
				b.ReportMetric(float64(own[i].Nanoseconds())/1e3/float64(last.Load()), "client-µs/"+step.name)
			}
		})
	}
}

func serverCPU(b *testing.B, c *Counter) time.Duration {
	b.Helper()
	info, err := c.rdb.Info(b.Context(), "cpu").Result()
	need(b, err)
	var seconds float64
	for _, field := range []string{"used_cpu_user", "used_cpu_sys"} {
		s, err := strconv.ParseFloat(serverInfo{text: info}.field(field), 64)
		need(b, err)
		seconds += s
	}
	return time.Duration(seconds * float64(time.Second))
}

func ownCPU() time.Duration {
	var u syscall.Rusage
	if syscall.Getrusage(syscall.RUSAGE_SELF, &u) != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}
