package counter

import (
	"testing"
	"time"
)

// TestTaken: what is taken is held beside what was dead-lettered, in each of a message's lives, and only while that is counted.
func TestTaken(t *testing.T) {
	for _, s := range stores(t) {
		take := func(n int) {
			t.Helper()
			if err := s.AddTaken(t.Context(), "/", "orders", n); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		expect := func(count, taken int64) {
			t.Helper()
			got, err := s.Buried(t.Context(), "/", "orders")
			if err != nil || got.Count != count || got.Taken != taken || got.Since.IsZero() != (count == 0) {
				t.Errorf("%s: %+v, %v, want count %d, taken %d", s.name, got, err, count, taken)
			}
		}
		bury := func(m Message) {
			t.Helper()
			if _, err := s.Fail(t.Context(), attempt(m, "a"), reject); err != nil {
				t.Fatalf("%s: %v", s.name, err)
			}
		}
		take(3)
		expect(0, 0)
		first, second := message("1"), message("1")
		second.Life = "header:1"
		bury(first)
		expect(1, 0)
		take(1)
		expect(1, 1)
		bury(second)
		expect(2, 1)
		take(1)
		expect(2, 2)
		for _, n := range []int{0, -1} {
			if err := s.AddTaken(t.Context(), "/", "orders", n); err == nil {
				t.Errorf("%s: accepted: %d", s.name, n)
			}
		}
		if other, err := s.Buried(t.Context(), "eu", "orders"); err != nil || other != (Buried{}) {
			t.Errorf("%s: of another vhost: %+v, %v", s.name, other, err)
		}
		expect(2, 2)
	}
}

// TestTakenKeepsTheTTL: the count outlives the records, even if the operator's TTL is shorter than that of the consumers.
func TestTakenKeepsTheTTL(t *testing.T) {
	for _, c := range servers(t) {
		m := message("1")
		dead := c.opts.keys(m).dead
		if err := c.AddTaken(t.Context(), m.VHost, m.Queue, 1); err != nil || c.rdb.Exists(t.Context(), dead).Val() != 0 {
			t.Errorf("of nothing a key is left, or %v", err)
		}
		if _, err := c.Fail(t.Context(), attempt(m, "a"), reject); err != nil {
			t.Fatal(err)
		}
		keep := 2 * c.opts.TTL
		for what, tc := range map[string]struct{ had, want time.Duration }{
			"none":    {0, keep},
			"shorter": {time.Second, keep},
			"longer":  {10 * keep, 10 * keep},
		} {
			mustDo(t, c.rdb, "PERSIST", dead)
			if tc.had > 0 {
				mustDo(t, c.rdb, "PEXPIRE", dead, tc.had.Milliseconds())
			}
			if err := c.AddTaken(t.Context(), m.VHost, m.Queue, 1); err != nil {
				t.Fatal(err)
			}
			if got := c.rdb.PTTL(t.Context(), dead).Val(); got < tc.want-time.Minute || got > tc.want {
				t.Errorf("TTL that was %s: %v, want %v", what, got, tc.want)
			}
		}
	}
}
