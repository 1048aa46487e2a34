package main

import (
	"bytes"
	"encoding/json"
	"strings"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/internal/bench"
)

// TestBenchQuick looks at the shape of a result, never at how fast anything was: every contestant settled every message, and
// nothing is left of it.
func TestBenchQuick(t *testing.T) {
	if testing.Short() {
		t.Skip("a minute on a slow machine")
	}
	out := mustOutput(t, strikesOn(t, "bench", "bench", "--quick", "--json", "--failing", "0,10"))
	var r bench.Result
	if err := json.Unmarshal([]byte(out), &r); err != nil || strings.Count(out, "\n") != 1 {
		t.Fatalf("%v\n%s", err, out)
	}
	if r.Messages != 100 || r.Rounds != 1 || r.Seconds <= 0 || !strings.HasPrefix(r.Broker, "RabbitMQ ") || !strings.HasPrefix(r.Store, "Redis ") {
		t.Errorf("%+v", r)
	}
	met := map[string]int{}
	for _, c := range r.Cases {
		met[c.Contest]++
		checkBenchCase(t, c)
	}
	want := map[string]int{bench.Success: 6, bench.Failing: 22, bench.Ordered: 8, bench.OrderedFailing: 4, bench.Publish: 4, bench.Counter: 6}
	for contest, n := range want {
		if met[contest] != n {
			t.Errorf("%s: %d cases, want %d", contest, met[contest], n)
		}
	}
	for _, x := range r.Ratios {
		if x.Median <= 0 || x.Least > x.Median || x.Most < x.Median {
			t.Errorf("%+v", x)
		}
	}
	if len(r.Memory) != 2 || r.Memory[0].Bytes < 100 || r.Memory[0].Bytes > 5000 {
		t.Errorf("memory: %+v", r.Memory)
	}
	checkBenchGone(t, r.Name)
}

func checkBenchCase(t *testing.T, c *bench.Case) {
	t.Helper()
	if len(c.Rates) != 1 || c.Rates[0] <= 0 || c.Median != c.Rates[0] {
		t.Errorf("%s: rates %v, median %v", c, c.Rates, c.Median)
	}
	switch c.Contest {
	case bench.Success, bench.Failing, bench.Ordered, bench.OrderedFailing:
		failing := c.Failing // of a hundred messages
		if c.Messages != 100 || c.DeadLettered != failing || c.Runs != 100+bench.Retries*failing {
			t.Errorf("%s: %d messages, %d dead-lettered, %d runs", c, c.Messages, c.DeadLettered, c.Runs)
		}
	case bench.Publish:
		if c.Messages != 100 {
			t.Errorf("%s: %d messages", c, c.Messages)
		}
	}
}

func checkBenchGone(t *testing.T, name string) {
	t.Helper()
	if name == "" || exists(t, name+"-1") || exists(t, name+"-1.dlq") {
		t.Errorf("queues of %q are left", name)
	}
	opts, err := redis.ParseURL(storeURL(t))
	if err != nil {
		t.Fatal(err)
	}
	rdb := redis.NewClient(opts)
	defer rdb.Close()
	if keys, err := rdb.Keys(t.Context(), name+"*").Result(); len(keys) > 0 || err != nil {
		t.Errorf("keys are left: %.10q, %v", keys, err)
	}
}

func TestBenchTable(t *testing.T) {
	var out bytes.Buffer
	err := printBench(&out, &bench.Result{
		Broker: "RabbitMQ 4.0\x1b[31m", Store: "Redis 7", Machine: "linux/amd64", CPUs: 2, Messages: 3000, BodySize: 256, Prefetch: 100, Rounds: 5,
		Ratios: []bench.Ratio{
			{Contest: bench.Failing, Of: bench.Strikes, To: "by hand", Queue: "quorum", Failing: 10, OfRate: 9000, ToRate: 6000, Unit: bench.Rate, Median: 1.5, Least: 1.4, Most: 1.6, Goal: 2},
			{Contest: bench.Counter, Of: "FAIL, many", To: "FAIL, few", OfRate: 9, ToRate: 10, Unit: bench.Time, Median: 1.11, Least: 1, Most: 1.2, Goal: 1.2},
		},
		Cases: []*bench.Case{
			{Contest: bench.Failing, Name: "by hand", Queue: "quorum", Failing: 10, Cost: &bench.Cost{Broker: 50.4, Store: 3, Client: 20}},
			{Contest: bench.Counter, Name: "of servers elsewhere"},
		},
		Memory: []bench.Memory{{What: bench.Strikes, Counters: 10, Bytes: 555.4}},
	})
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"failing                    quorum  10%", "9000", "by hand", "1.50   1.40-1.60  >= 2.00 missed\n",
		"counter: FAIL, many, time  -       -", "1.11   1.00-1.20  <= 1.20\n", "strikes: 555 bytes a counter (10 counters)\n",
		"failing  quorum  10%      by hand     50      3      20      73\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "elsewhere") {
		t.Errorf("a cost that is not known is shown:\n%s", &out)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("an escape sequence reaches the terminal")
	}
}

func TestBenchRefuses(t *testing.T) {
	for _, args := range [][]string{
		{"--only", "speed"}, {"--type", "stream"}, {"--failing", "some"}, {"--failing", "101"}, {"--messages", "0"}, {"--rounds", "-1"},
		{"--time", "0s"}, {"--live", "10"}, {"more"},
	} {
		var out output
		code := run(t.Context(), cli.Streams{Out: &out, Err: &out}, append([]string{"strikes", "bench"}, args...))
		if code != cli.ExitMisuse || out.String() == "" {
			t.Errorf("%q: exit code %d:\n%s", args, code, &out)
		}
	}
}
