package counter

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

func TestDeal(t *testing.T) {
	for _, s := range stores(t) {
		deal := func(token string, consumes ...int) []int {
			t.Helper()
			mine, err := s.Deal(t.Context(), "/", "orders", rules.DealRead{Token: token, Consumer: "host-" + token,
				Partitions: 4, Consumes: consumes})
			needOf(t, s.name, err)
			return mine
		}
		if got := deal("a"); !slices.Equal(got, []int{0, 1, 2, 3}) {
			t.Errorf("%s: the first process got %v", s.name, got)
		}
		b, a := deal("b"), deal("a")
		if len(a) != 2 || len(b) != 2 || slices.Contains(a, b[0]) || slices.Contains(a, b[1]) {
			t.Errorf("%s: two processes got %v and %v", s.name, a, b)
		}
		d, err := s.Dealt(t.Context(), "/", "orders")
		if err != nil || d.Partitions != 4 || len(d.Members) != 2 || d.Members[0].Consumer != "host-a" ||
			!slices.Equal(d.Members[0].Partitions, a) {
			t.Errorf("%s: operators read %+v, %v", s.name, d, err)
		}
		if d, err := s.Dealt(t.Context(), "/", "bills"); err != nil || d.Partitions != 0 {
			t.Errorf("%s: of a queue without partitions: %+v, %v", s.name, d, err)
		}
		_, err = s.Deal(t.Context(), "/", "orders", rules.DealRead{Token: "c", Partitions: 8})
		if !errors.Is(err, ErrPartitions) {
			t.Errorf("%s: another number: %v", s.name, err)
		}
		if _, err := s.Deal(t.Context(), "/", "orders", rules.DealRead{Token: "bad token", Partitions: 4}); err == nil {
			t.Errorf("%s: a bad token is accepted", s.name)
		}
		left := rules.DealRead{Token: "b", Left: true}
		if mine, err := s.Deal(t.Context(), "/", "orders", left); err != nil || mine != nil {
			t.Errorf("%s: a last read: %v, %v", s.name, mine, err)
		}
		if got := deal("a"); len(got) != 4 {
			t.Errorf("%s: after the other left: %v", s.name, got)
		}
	}
}

// TestDealAfterKills: processes that were killed keep those of another number of partitions off for 7 s at most.
func TestDealAfterKills(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		c := NewMemory(nil)
		_, err := c.Deal(t.Context(), "/", "orders", rules.DealRead{Token: "killed", Partitions: 4})
		needOf(t, "Memory", err)
		var mine []int
		for range 7 {
			time.Sleep(time.Second)
			mine, err = c.Deal(t.Context(), "/", "orders", rules.DealRead{Token: "next", Partitions: 8})
		}
		if len(mine) != 8 || err != nil {
			t.Errorf("7 s after the other process was killed: %v, %v", mine, err)
		}
	})
}

// TestDealAtTheSameTime: each of many processes that read at the same time is dealt in.
func TestDealAtTheSameTime(t *testing.T) {
	for _, s := range stores(t) {
		var all sync.WaitGroup
		for i := range 16 {
			all.Go(func() {
				r := rules.DealRead{Token: fmt.Sprintf("p%d", i), Partitions: 32}
				if _, err := s.Deal(t.Context(), "/", "orders", r); err != nil {
					t.Errorf("%s: %v", s.name, err)
				}
			})
		}
		all.Wait()
		d, err := s.Dealt(t.Context(), "/", "orders")
		if err != nil || len(d.Members) != 16 {
			t.Fatalf("%s: %d processes, want 16, %v", s.name, len(d.Members), err)
		}
		for _, m := range d.Members {
			if len(m.Partitions) != 2 {
				t.Errorf("%s: %s has %v", s.name, m.Token, m.Partitions)
			}
		}
	}
}
