package consumer

import (
	"context"
	"errors"
	"log/slog"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/strikesmq/strikes/counter/rules"
)

// scripted deals the partitions that the test sets.
type scripted struct {
	Counter
	mine  []int
	err   error
	reads []rules.DealRead
}

func (s *scripted) Deal(_ context.Context, _, _ string, r rules.DealRead) ([]int, error) {
	s.reads = append(s.reads, r)
	return s.mine, s.err
}

func TestDealIsFollowed(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log strings.Builder
		store := &scripted{mine: []int{1, 3}}
		f := newDeal(settings{Consumer: Consumer{Counter: store, Queue: "orders", Partitions: 4,
			Logger: slog.New(slog.NewTextHandler(&log, nil))}, vhost: "/"})
		read := func(seconds int, when string, want ...int) {
			t.Helper()
			for range seconds {
				f.read(t.Context())
				time.Sleep(dealEvery)
			}
			if mine := f.me.Consumes; !f.known || !slices.Equal(mine, want) {
				t.Errorf("%s: %v, %v, want %v", when, mine, f.known, want)
			}
		}
		if f.known {
			t.Error("a deal is known before the first read")
		}
		f.begin()
		read(1, "at first", 1, 3)
		store.mine = []int{1}
		read(1, "a second later", 1)
		store.err = errors.New("away")
		read(29, "while the store is away", 1)
		f.begin()
		read(29, "after another connection", 1)
		read(3, "when it was away for 30 s", 0, 1, 2, 3)
		store.err = nil
		read(1, "when it is back", 1)
		if got := log.String(); strings.Count(got, "the last one stands") != 2 || strings.Count(got, "again") != 1 {
			t.Errorf("want one line for each connection, and one when the store is back: %s", got)
		}
		for range 2 {
			f.leave(t.Context())
		}
		last := store.reads[len(store.reads)-1]
		if want := 1 + 1 + 29 + 29 + 3 + 1 + 1; !last.Left || last.Token == "" || len(store.reads) != want {
			t.Errorf("%d reads, want %d; the last one: %+v", len(store.reads), want, last)
		}
		if second := store.reads[1]; !slices.Equal(second.Consumes, []int{1, 3}) {
			t.Errorf("the second read says that it consumes %v, want 1 and 3", second.Consumes)
		}
	})
}
