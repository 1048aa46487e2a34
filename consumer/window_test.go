package consumer

import (
	"fmt"
	"strconv"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"pgregory.net/rapid"
)

// settlements is a channel that notes them: "3" is an ack of one tag, "..3" of all up to it, "3r" a requeue, "3d" a dead
// letter.
type settlements struct {
	mu  sync.Mutex
	got []string
}

func (c *settlements) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.got, " ")
}

func (c *settlements) note(tag uint64, multiple bool, kind string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, map[bool]string{true: ".."}[multiple]+fmt.Sprint(tag)+kind)
	return nil
}

func (c *settlements) Ack(tag uint64, multiple bool) error { return c.note(tag, multiple, "") }
func (c *settlements) Nack(tag uint64, multiple, requeue bool) error {
	return c.note(tag, multiple, map[bool]string{true: "r", false: "d"}[requeue])
}
func (c *settlements) Reject(uint64, bool) error { panic("a window does not reject") }

var settling = map[string]step{"": stepAck, "r": stepRequeue, "d": stepDeadLetter}

// opened is a window with n deliveries in it.
func opened(run, n int) (*window, []*attempt, *settlements) {
	seen := &settlements{}
	w := newWindow(3*run, false, func(*attempt, error) {})
	attempts := make([]*attempt, n+1) // by tag
	for tag := 1; tag <= n; tag++ {
		attempts[tag] = &attempt{delivery: amqp.Delivery{Acknowledger: seen, DeliveryTag: uint64(tag)}}
		w.open(attempts[tag])
	}
	return w, attempts, seen
}

// split takes apart what settlements notes.
func split(settlement string) (tag int, multiple bool, kind string) {
	digits, multiple := strings.CutPrefix(settlement, "..")
	kind = strings.TrimLeft(digits, "0123456789")
	tag, err := strconv.Atoi(strings.TrimSuffix(digits, kind))
	if err != nil {
		panic(err)
	}
	return tag, multiple, kind
}

func TestWindowSettlesInRuns(t *testing.T) {
	for _, tc := range []struct {
		name    string
		run     int
		decided string
		atOnce  string
		soon    string // once they have waited long enough
	}{
		{"a run", 3, "1 2 3", "..3", "..3"},
		{"in any order", 3, "3 1 2", "..3", "..3"},
		{"fewer than a run", 3, "1 2", "", "..2"},
		{"one", 3, "1", "", "1"},
		{"behind one in hand", 3, "2 3 4", "", "2 3 4"},
		{"up to one in hand", 3, "1 2 4", "..2", "..2 4"},
		{"many behind one in hand", 2, "2 3 4 5", "2 3 4 5", "2 3 4 5"},
		{"behind one that is decided soon", 4, "2 3 1", "", "..3"},
		{"requeues", 3, "1r 2r 3r", "..3r", "..3r"},
		{"dead letters", 3, "1d 2d 3d", "..3d", "..3d"},
		{"one requeue", 3, "1r", "", "1r"},
		{"past a requeue", 4, "1 2r 3 4", "2r ..4", "2r ..4"},
		{"past two requeues", 5, "1 2r 3r 4 5", "1 ..3r ..5", "1 ..3r ..5"},
		{"past one of each kind", 4, "1 2r 3d 4", "1 2r 3d 4", "1 2r 3d 4"},
		{"past every second", 6, "1r 2 3r 4d 5r 6", "2 4d ..5r 6", "2 4d ..5r 6"},
		{"past requeues at the head", 4, "1r 2r 3 4", "..2r ..4", "..2r ..4"},
		{"each kind", 6, "1 2 3r 4r 5d 6d", "..2 ..4r ..6d", "..2 ..4r ..6d"},
		{"requeues behind one in hand", 3, "2r 3r 4", "", "2r 3r 4"},
		{"each at once", 1, "2 1r 4 3d", "2 1r 4 3d", "2 1r 4 3d"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				w, attempts, seen := opened(tc.run, 6)
				for _, decision := range strings.Fields(tc.decided) {
					tag, _, kind := split(decision)
					attempts[tag].next = settling[kind]
					w.settle(attempts[tag])
				}
				if got := seen.String(); got != tc.atOnce {
					t.Errorf("at once: %q, want %q", got, tc.atOnce)
				}
				time.Sleep(patience*tick + 1)
				synctest.Wait()
				if got := seen.String(); got != tc.soon {
					t.Errorf("soon: %q, want %q", got, tc.soon)
				}
			})
		})
	}
}

// TestWindowCoversOnlyWhatIsDecided holds any order of successes, failures and pauses against what a broker would make of
// it: each delivery that was decided is settled once, as it was decided, and no other is.
func TestWindowCoversOnlyWhatIsDecided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "deliveries")
		w, attempts, seen := opened(rapid.IntRange(1, 8).Draw(t, "run"), n)
		const left = "left"
		unsettled := map[int]string{}
		for _, tag := range rapid.Permutation(tagsUpTo(n)).Draw(t, "order") {
			unsettled[tag] = rapid.SampledFrom([]string{"", "", "", "r", "r", "d", left}).Draw(t, "fate")
			if unsettled[tag] != left {
				attempts[tag].next = settling[unsettled[tag]]
				w.settle(attempts[tag])
			}
			if rapid.IntRange(0, 9).Draw(t, "pause") == 0 {
				w.tick()
			}
		}
		w.hurry()
		for _, settlement := range strings.Fields(seen.String()) {
			tag, multiple, kind := split(settlement)
			covered := 0
			for have, fate := range unsettled {
				if have == tag || multiple && have < tag {
					if delete(unsettled, have); fate != kind {
						t.Fatalf("%s settled %d, which was to be %q", settlement, have, fate)
					}
					covered++
				}
			}
			if covered == 0 {
				t.Fatalf("%s settled nothing: the broker would close the channel", settlement)
			}
		}
		for tag, fate := range unsettled {
			if fate != left {
				t.Fatalf("%d was to be %q and never settled", tag, fate)
			}
		}
	})
}

// TestWindowSettlesNow: a delivery that something waits for is settled with all that is decided up to the first in hand, and
// nothing behind that one goes with it.
func TestWindowSettlesNow(t *testing.T) {
	for _, tc := range []struct{ decided, now, want string }{
		{"", "1d", "1d"},
		{"1 2", "3d", "..2 3d"},
		{"2 3 5", "4d", "4d"},
		{"1 3 5", "4d", "1 4d"},
	} {
		w, attempts, seen := opened(9, 6)
		for _, decision := range strings.Fields(tc.decided) {
			tag, _, _ := split(decision)
			attempts[tag].next = stepAck
			w.settle(attempts[tag])
		}
		tag, _, kind := split(tc.now)
		attempts[tag].next = settling[kind]
		w.settleNow(attempts[tag])
		if got := seen.String(); got != tc.want {
			t.Errorf("%q decided and %q now: settled %q, want %q", tc.decided, tc.now, got, tc.want)
		}
	}
}

// TestWindowForgetsWhatIsSettled: a handler that hangs, or keeps its context, keeps one attempt and no more.
func TestWindowForgetsWhatIsSettled(t *testing.T) {
	w, attempts, _ := opened(1, 3)
	for _, tag := range []int{2, 1, 3} {
		attempts[tag].next = stepAck
		w.settle(attempts[tag])
		if a := attempts[tag]; a.older != nil || a.newer != nil {
			t.Errorf("%d is settled and still linked", tag)
		}
	}
}

// TestWindowPauses: nothing is settled between pause and hurry.
func TestWindowPauses(t *testing.T) {
	w, attempts, seen := opened(1, 2)
	w.pause()
	attempts[1].next = stepAck
	w.settle(attempts[1])
	w.tick()
	if got := seen.String(); got != "" {
		t.Errorf("settled while paused: %s", got)
	}
	w.hurry()
	if got := seen.String(); got != "1" {
		t.Errorf("settled: %q", got)
	}
}

func tagsUpTo(n int) []int {
	tags := make([]int, n)
	for i := range tags {
		tags[i] = i + 1
	}
	return tags
}

// TestWindowLetsNoWorkerWait: once all that the broker may give out is here and a worker has nothing to do, whatever is decided
// makes room.
func TestWindowLetsNoWorkerWait(t *testing.T) {
	w, attempts, seen := opened(2, 6)
	decide := func(tag int, want string) {
		t.Helper()
		attempts[tag].next = stepAck
		w.settle(attempts[tag])
		if got := seen.String(); got != want {
			t.Errorf("with %d decided: %q, want %q", tag, got, want)
		}
	}
	decide(3, "")
	w.idles()
	if got := seen.String(); got != "3" {
		t.Errorf("with an idle worker: %q", got)
	}
	decide(4, "3") // the broker may send one
	w.open(&attempt{delivery: amqp.Delivery{Acknowledger: seen, DeliveryTag: 7}})
	decide(5, "3 4 5")
	w.open(&attempt{delivery: amqp.Delivery{Acknowledger: seen, DeliveryTag: 8}})
	w.open(&attempt{delivery: amqp.Delivery{Acknowledger: seen, DeliveryTag: 9}})
	w.works()
	decide(6, "3 4 5")
}

// TestWindowSettlesEach: with AckEach no two are settled by one ack, however many are decided at once.
func TestWindowSettlesEach(t *testing.T) {
	w, attempts, seen := opened(1, 3)
	w.each = true
	w.pause()
	for _, tag := range []int{2, 1, 3} {
		attempts[tag].next = stepAck
		w.settle(attempts[tag])
	}
	w.hurry()
	if got := seen.String(); got != "1 2 3" {
		t.Errorf("settled %q", got)
	}
}

// TestWindowPausesInTheMiddle: of what was taken out already, too, nothing is settled after pause.
func TestWindowPausesInTheMiddle(t *testing.T) {
	w, attempts, seen := opened(2, 6)
	w.settled = func(*attempt, error) { w.pause() }
	for _, tag := range []int{2, 3, 4, 5} {
		attempts[tag].next = stepAck
		w.settle(attempts[tag])
	}
	if got := seen.String(); got != "2" {
		t.Errorf("settled %q after the pause", got)
	}
	w.settled = func(*attempt, error) {}
	w.hurry()
	if got := seen.String(); got != "2 3 4 5" {
		t.Errorf("settled %q in all", got)
	}
}

// blockedAck is a channel whose first settlement blocks until the test lets it go.
type blockedAck struct {
	*settlements
	begun, released chan struct{}
	once            sync.Once
}

func (b *blockedAck) Ack(tag uint64, multiple bool) error {
	b.once.Do(func() {
		close(b.begun)
		<-b.released
	})
	return b.settlements.Ack(tag, multiple)
}

// TestWindowTimerRunsWhileOneSends decides deliveries while another goroutine is in the middle of a settlement, and finds that
// goroutine with nothing to send for them. They are settled after their patience all the same.
func TestWindowTimerRunsWhileOneSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w, attempts, seen := opened(2, 6)
		time.Sleep(2 * tick) // no timer is left from the beginning
		blocked := &blockedAck{settlements: seen, begun: make(chan struct{}), released: make(chan struct{})}
		attempts[2].delivery.Acknowledger = blocked
		w.idles()
		go func() {
			attempts[2].next = stepAck
			w.settle(attempts[2])
		}()
		<-blocked.begun
		w.open(&attempt{delivery: amqp.Delivery{Acknowledger: seen, DeliveryTag: 7}})
		attempts[4].next = stepAck
		w.settle(attempts[4]) // now, for the worker has nothing to do; but the other goroutine sends
		w.works()
		close(blocked.released)
		synctest.Wait()
		attempts[5].next = stepAck
		w.settle(attempts[5])
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		if got, want := seen.String(), "2 4 5"; got != want {
			t.Errorf("settled %q after 500 ms, want %q", got, want)
		}
	})
}
