package acks

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

// recorder is a channel that notes settlements: "3" is an ack of one tag, "..3" of all up to it, "3r" a requeue, "3d" a
// dead letter.
type recorder struct {
	mu  sync.Mutex
	got []string
}

func (c *recorder) String() string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return strings.Join(c.got, " ")
}

func (c *recorder) note(tag uint64, multiple bool, kind string) error {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.got = append(c.got, map[bool]string{true: ".."}[multiple]+fmt.Sprint(tag)+kind)
	return nil
}

func (c *recorder) Ack(tag uint64, multiple bool) error { return c.note(tag, multiple, "") }
func (c *recorder) Nack(tag uint64, multiple, requeue bool) error {
	return c.note(tag, multiple, map[bool]string{true: "r", false: "d"}[requeue])
}
func (c *recorder) Reject(uint64, bool) error { panic("a Batcher does not reject") }

var methods = map[string]Method{"": Ack, "r": Requeue, "d": DeadLetter}

// fixture is a Batcher with deliveries in it, by tag. In a bubble of synctest its timer ticks only while the test
// sleeps.
type fixture struct {
	*Batcher[uint64]
	*recorder
	entries []*Entry[uint64]
	idle    atomic.Bool
}

func opened(run, n int) *fixture {
	f := &fixture{recorder: &recorder{}, entries: make([]*Entry[uint64], 1)}
	f.Batcher = New(Options[uint64]{Prefetch: 3 * run, Idle: func() bool {
		return f.idle.Load()
	}, Settled: func(uint64, error) {}})
	for range n {
		f.open()
	}
	return f
}

func (f *fixture) open() {
	f.entries = append(f.entries, nil)
	f.openTag(uint64(len(f.entries) - 1))
}

func (f *fixture) openTag(tag uint64) {
	f.entries[tag] = &Entry[uint64]{Delivery: tag, Channel: f.recorder, Tag: tag}
	f.Open(f.entries[tag])
}

// settle gives the method of "3", "3r" or "3d".
func (f *fixture) settle(decision string, urgent bool) {
	tag, _, kind := split(decision)
	f.Settle(f.entries[tag], methods[kind], urgent)
}

func (f *fixture) expect(t *testing.T, what, want string) {
	t.Helper()
	if got := f.String(); got != want {
		t.Errorf("%s: settled %q, want %q", what, got, want)
	}
}

// split takes apart a note of a recorder.
func split(settlement string) (tag int, multiple bool, kind string) {
	digits, multiple := strings.CutPrefix(settlement, "..")
	kind = strings.TrimLeft(digits, "0123456789")
	tag, err := strconv.Atoi(strings.TrimSuffix(digits, kind))
	if err != nil {
		panic(err)
	}
	return tag, multiple, kind
}

func TestBatcherSettlesInRuns(t *testing.T) {
	for _, tc := range []struct {
		name    string
		run     int
		decided string
		now     string
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
		{"each immediately", 1, "2 1r 4 3d", "2 1r 4 3d", "2 1r 4 3d"},
	} {
		t.Run(tc.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				f := opened(tc.run, 6)
				for _, decision := range strings.Fields(tc.decided) {
					f.settle(decision, false)
				}
				f.expect(t, "immediately", tc.now)
				time.Sleep(Patience*Tick + 1)
				synctest.Wait()
				f.expect(t, "soon", tc.soon)
			})
		})
	}
}

// TestBatcherCoversOnlyWhatIsDecided plays any order of methods and pauses against the rules of a broker. Each
// delivery with a method is settled once, by that method, and no other is.
func TestBatcherCoversOnlyWhatIsDecided(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		n := rapid.IntRange(1, 30).Draw(t, "deliveries")
		f := opened(rapid.IntRange(1, 8).Draw(t, "run"), n)
		const left = "left"
		unsettled := map[int]string{}
		for _, tag := range rapid.Permutation(tagsUpTo(n)).Draw(t, "order") {
			unsettled[tag] = rapid.SampledFrom([]string{"", "", "", "r", "r", "d", left}).Draw(t, "fate")
			if unsettled[tag] != left {
				f.settle(fmt.Sprint(tag)+unsettled[tag], false)
			}
			if rapid.IntRange(0, 9).Draw(t, "pause") == 0 {
				f.tick()
			}
		}
		f.Hurry()
		<-f.Sent() // the timer may be sending
		for _, settlement := range strings.Fields(f.String()) {
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

// TestBatcherSettlesNow: a delivery that something waits for is settled with all that is decided up to the first in
// hand, and nothing behind that one goes with it.
func TestBatcherSettlesNow(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, tc := range []struct{ decided, now, want string }{
			{"", "1d", "1d"},
			{"1 2", "3d", "..2 3d"},
			{"2 3 5", "4d", "4d"},
			{"1 3 5", "4d", "1 4d"},
		} {
			f := opened(9, 6)
			for _, decision := range strings.Fields(tc.decided) {
				f.settle(decision, false)
			}
			f.settle(tc.now, true)
			f.expect(t, fmt.Sprintf("%q decided and %q urgent", tc.decided, tc.now), tc.want)
		}
	})
}

// TestBatcherForgetsWhatIsSettled: a handler that hangs, or keeps its context, keeps one delivery and no more.
func TestBatcherForgetsWhatIsSettled(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := opened(1, 3)
		for _, tag := range []string{"2", "1", "3"} {
			f.settle(tag, false)
		}
		for _, e := range f.unsettled[:cap(f.unsettled)] {
			if e != nil {
				t.Errorf("%d is settled and still kept", e.Tag)
			}
		}
	})
}

// TestBatcherPauses: nothing is settled between Pause and Hurry.
func TestBatcherPauses(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := opened(1, 2)
		f.Pause()
		f.settle("1", false)
		f.tick()
		f.expect(t, "paused", "")
		f.Hurry()
		f.expect(t, "then", "1")
	})
}

func tagsUpTo(n int) []int {
	tags := make([]int, n)
	for i := range tags {
		tags[i] = i + 1
	}
	return tags
}

// TestBatcherLetsNoWorkerWait: once all that the broker may give out is here and a worker has nothing to do, each
// method makes room.
func TestBatcherLetsNoWorkerWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := opened(2, 6)
		f.settle("3", false)
		f.expect(t, "with busy workers", "")
		f.idle.Store(true)
		f.Wake()
		f.expect(t, "with an idle worker", "3")
		f.settle("4", false)
		f.expect(t, "the broker may send one", "3")
		f.open()
		f.settle("5", false)
		f.expect(t, "it has sent it", "3 4 5")
		f.open()
		f.open()
		f.idle.Store(false)
		f.settle("6", false)
		f.expect(t, "with busy workers again", "3 4 5")
	})
}

// pausing is a channel on which a Pause comes during a settlement.
type pausing struct{ *fixture }

func (p pausing) Ack(tag uint64, multiple bool) error {
	p.Pause()
	return p.recorder.Ack(tag, multiple)
}

// TestBatcherPausesInTheMiddle: after Pause nothing is settled, not even a delivery that was taken out before.
func TestBatcherPausesInTheMiddle(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := opened(2, 6)
		f.entries[2].Channel = pausing{f}
		for _, tag := range []string{"2", "3", "4", "5"} {
			f.settle(tag, false)
		}
		f.expect(t, "paused", "2")
		f.Hurry()
		f.expect(t, "then", "2 3 4 5")
	})
}

// TestBatcherSettlesTogether: settlements that are due at the same time are sent together. Each is reported after all
// were sent, with its own error or that of the sending.
func TestBatcherSettlesTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := opened(2, 6)
		calls, reported := 0, []string{}
		lost := errors.New("lost")
		f.Together = func(send func()) error {
			calls++
			send()
			f.expect(t, "in one call", "2 3 4 5")
			if len(reported) > 0 {
				t.Errorf("%q were reported before all were sent", reported)
			}
			return lost
		}
		f.Settled = func(tag uint64, err error) { reported = append(reported, fmt.Sprint(tag, " ", err)) }
		for _, tag := range []string{"2", "3", "4", "5"} {
			f.settle(tag, false)
		}
		if want := []string{"2 lost", "3 lost", "4 lost", "5 lost"}; calls != 1 || !slices.Equal(reported, want) {
			t.Errorf("%d calls, reported %q, want %q", calls, reported, want)
		}
	})
}

// blockedAck is a channel whose first settlement blocks until the test lets it go.
type blockedAck struct {
	*recorder
	begun, released chan struct{}
	once            sync.Once
}

func (b *blockedAck) Ack(tag uint64, multiple bool) error {
	b.once.Do(func() {
		close(b.begun)
		<-b.released
	})
	return b.recorder.Ack(tag, multiple)
}

// TestBatcherTimerRunsWhileOneSends decides deliveries while another goroutine is in the middle of a settlement, and
// finds that goroutine with nothing to send for them. They are settled after their patience all the same.
func TestBatcherTimerRunsWhileOneSends(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := opened(2, 6)
		time.Sleep(2 * Tick) // no timer is left from the beginning
		blocked := &blockedAck{recorder: f.recorder, begun: make(chan struct{}), released: make(chan struct{})}
		f.entries[2].Channel = blocked
		f.idle.Store(true)
		go f.settle("2", false)
		<-blocked.begun
		f.open()
		f.settle("4", false) // now, for a worker is idle; but the other goroutine sends
		f.idle.Store(false)
		close(blocked.released)
		synctest.Wait()
		f.settle("5", false)
		time.Sleep(500 * time.Millisecond)
		synctest.Wait()
		f.expect(t, "after 500 ms", "2 4 5")
	})
}

// TestBatcherOfTwoConsumers: deliveries that come in another order than that of their tags are settled in runs once all
// have come, and singly as long as one is missing.
func TestBatcherOfTwoConsumers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		f := opened(5, 0)
		f.entries = make([]*Entry[uint64], 8)
		for _, tag := range []uint64{1, 4, 3, 2} {
			f.openTag(tag)
		}
		for _, tag := range []string{"4", "1", "2", "3"} {
			f.settle(tag, false)
		}
		f.Sent()
		f.expect(t, "all have come", "..4")
		for _, tag := range []uint64{7, 5} {
			f.openTag(tag)
			f.settle(fmt.Sprint(tag), false)
		}
		f.Sent()
		f.expect(t, "6 has not come", "..4 5 7")
	})
}
