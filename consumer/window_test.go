package consumer

import (
	"fmt"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"
)

// acksSeen is a channel that notes acks, "3" of one tag and "..3" of all up to it.
type acksSeen struct {
	mu  sync.Mutex
	got []string
}

func (c *acksSeen) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.got, " ")
}

func (c *acksSeen) Ack(tag uint64, multiple bool) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, map[bool]string{false: "", true: ".."}[multiple]+fmt.Sprint(tag))
	return nil
}
func (c *acksSeen) Nack(uint64, bool, bool) error { panic("a window sends acks only") }
func (c *acksSeen) Reject(uint64, bool) error     { panic("a window sends acks only") }

// opened is a window with n deliveries in it.
func opened(run, n int) (*window, []*attempt, *acksSeen) {
	seen := &acksSeen{}
	w := newWindow(run, func(*attempt, error) {})
	attempts := make([]*attempt, n+1) // by tag
	for tag := 1; tag <= n; tag++ {
		attempts[tag] = &attempt{delivery: amqp.Delivery{Acknowledger: seen, DeliveryTag: uint64(tag)}}
		w.open(attempts[tag])
	}
	return w, attempts, seen
}

func TestWindowAcksInRuns(t *testing.T) {
	for _, tc := range []struct {
		name    string
		run     int
		nacked  []int
		handled []int
		atOnce  string
		soon    string // after two ticks
	}{
		{"a run", 3, nil, []int{1, 2, 3}, "..3", "..3"},
		{"in any order", 3, nil, []int{3, 1, 2}, "..3", "..3"},
		{"fewer than a run", 3, nil, []int{1, 2}, "", "..2"},
		{"one", 3, nil, []int{1}, "", "1"},
		{"behind one in hand", 3, nil, []int{2, 3, 4}, "", "2 3 4"},
		{"up to one in hand", 3, nil, []int{1, 2, 4}, "..2", "..2 4"},
		{"many behind one in hand", 2, nil, []int{2, 3, 4, 5}, "2 3 4 5", "2 3 4 5"},
		{"behind one that is handled soon", 4, nil, []int{2, 3, 1}, "", "..3"},
		{"past a nack", 3, []int{2}, []int{1, 3, 4}, "..4", "..4"},
		{"past nacks at the head", 2, []int{1, 2}, []int{3, 4}, "..4", "..4"},
		{"each at once", 1, nil, []int{2, 1, 4}, "2 1 4", "2 1 4"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, attempts, seen := opened(tc.run, 6)
				for _, tag := range tc.nacked {
					w.nacked(attempts[tag])
				}
				for _, tag := range tc.handled {
					w.handle(attempts[tag])
				}
				if got := seen.String(); got != tc.atOnce {
					t.Errorf("at once: %q, want %q", got, tc.atOnce)
				}
				time.Sleep(2*tick + 1)
				synctest.Wait()
				if got := seen.String(); got != tc.soon {
					t.Errorf("soon: %q, want %q", got, tc.soon)
				}
			})
		})
	}
}

// TestWindowCoversOnlyWhatIsHandled holds any order of nacks, successes and pauses against what a broker would make of it:
// each delivery that was handled is acked once, and no other is.
func TestWindowCoversOnlyWhatIsHandled(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "deliveries")
		w, attempts, seen := opened(rapid.IntRange(1, 8).Draw(t, "run"), n)
		unsettled := map[int]bool{}
		want := map[int]string{}
		for tag := 1; tag <= n; tag++ {
			unsettled[tag] = true
		}
		for _, tag := range rapid.Permutation(tagsUpTo(n)).Draw(t, "order") {
			want[tag] = rapid.SampledFrom([]string{"handled", "handled", "handled", "nacked", "left"}).Draw(t, "fate")
			switch want[tag] {
			case "handled":
				w.handle(attempts[tag])
			case "nacked":
				w.nacked(attempts[tag])
			}
			if rapid.IntRange(0, 9).Draw(t, "pause") == 0 {
				w.tick()
			}
			if want[tag] == "nacked" {
				delete(unsettled, tag)
			}
		}
		w.hurry()
		for _, ack := range strings.Fields(seen.String()) {
			var tag int
			digits, multiple := strings.CutPrefix(ack, "..")
			if _, err := fmt.Sscan(digits, &tag); err != nil {
				t.Fatal(err)
			}
			covered := 0
			for have := range unsettled {
				if have == tag || multiple && have < tag {
					if delete(unsettled, have); want[have] != "handled" {
						t.Fatalf("%s acked %d, which was %s", ack, have, want[have])
					}
					covered++
				}
			}
			if covered == 0 {
				t.Fatalf("%s acked nothing: the broker would close the channel", ack)
			}
		}
		for tag := range unsettled {
			if want[tag] == "handled" {
				t.Fatalf("%d was handled and never acked", tag)
			}
		}
	})
}

func tagsUpTo(n int) []int {
	tags := make([]int, n)
	for i := range tags {
		tags[i] = i + 1
	}
	return tags
}
