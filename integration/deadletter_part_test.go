package integration

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/strikesmq/strikes/deadletter"
)

// TestBrowsePart reads parts of a queue, short and long ones in turn, and all of it in between. The right part must
// come, and the queue must stay in its order. A quorum queue puts returned messages behind those that were returned
// before.
func TestBrowsePart(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		t.Parallel() // most of it is waiting
		const n = 400
		q := withDeadLetters(t, queue, n)
		all := numbered("m", n)
		byID := deadletter.Filter{IDs: []string{"m3", "m250"}}
		for i, tc := range []struct {
			f    deadletter.Filter
			b    deadletter.Bounds
			want []string
			part bool // something is left unread
		}{
			{deadletter.Filter{}, deadletter.Bounds{Picked: 5}, all[:5], true},
			{deadletter.Filter{}, deadletter.Bounds{Picked: 3}, all[:3], true},
			{deadletter.Filter{}, deadletter.Bounds{Picked: 5}, all[:5], true},
			{deadletter.Filter{}, deadletter.Bounds{AtMost: 30}, all[:30], true},
			{deadletter.Filter{}, deadletter.Bounds{Picked: 5}, all[:5], true},
			{byID, deadletter.Bounds{Picked: 1, AtLeast: 20}, all[3:4], true},
			{byID, deadletter.Bounds{Picked: 1, AtLeast: 260}, []string{"m3", "m250"}, true},
			{byID, deadletter.Bounds{Picked: 2, AtMost: 100}, all[3:4], true},
			{byID, deadletter.Bounds{AtMost: n}, []string{"m3", "m250"}, false},
			{deadletter.Filter{}, deadletter.Bounds{Picked: 2}, all[:2], true},
			{deadletter.Filter{Kind: deadletter.KindNoRecord}, deadletter.Bounds{Picked: 1}, all[:1], true},
			{deadletter.Filter{}, deadletter.Bounds{Picked: n + 1}, all, false},
		} {
			var got []string
			var left *deadletter.UnreadError
			for l, err := range q.BrowsePart(t.Context(), tc.f, tc.b) {
				if err != nil && !errors.As(err, &left) {
					t.Fatal(err)
				}
				if err == nil {
					got = append(got, l.ID)
				}
			}
			if !slices.Equal(got, tc.want) || (left != nil) != tc.part {
				t.Errorf("%d, %+v: %v, %v, want %v", i, tc.b, got, left, tc.want)
			}
		}
		if diff := cmp.Diff(all, ids(getAll(t, q.Name))); diff != "" {
			t.Error(diff)
		}
	})
}

// TestBrowsePartIsShort reads a part of a long queue over and over, which must not cost more and more.
func TestBrowsePartIsShort(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		n := max(*killLetters, 3000)
		makeDeadLetters(t, queue, n)
		q := deadLetterQueue(t, queue)
		for _, tc := range []struct {
			what string
			f    deadletter.Filter
			b    deadletter.Bounds
			most int // messages to be read
		}{
			{"the first 5", deadletter.Filter{}, deadletter.Bounds{Picked: 5}, 50},
			{"one that is near", deadletter.Filter{IDs: []string{"m17"}}, deadletter.Bounds{Picked: 1}, 100},
			{"one in the first 1000", deadletter.Filter{IDs: []string{fmt.Sprint("m", n-1)}},
				deadletter.Bounds{AtMost: 1000}, 1200},
		} {
			for range 10 {
				read, began := 0, time.Now()
				q.Progress = func(p deadletter.Progress) { read++ }
				for _, err := range q.BrowsePart(t.Context(), tc.f, tc.b) {
					if err != nil && !errors.Is(err, deadletter.ErrUnread) {
						t.Fatal(err)
					}
				}
				t.Logf("%s of %d: %v, %d read", tc.what, n, time.Since(began).Round(time.Millisecond), read)
				if read > tc.most {
					t.Errorf("%s of %d: %d were read, want %d at most", tc.what, n, read, tc.most)
				}
			}
		}
	})
}
