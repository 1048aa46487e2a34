package integration

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
)

// TestReplayLosesItsBroker cuts the connections of a replay in the middle.
func TestReplayLosesItsBroker(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		const n, window = 50, 5
		q := withDeadLetters(t, queue, n)
		name := uniqueName(t, "replay")
		q.Dial = namedDialer(t, name)
		told := 0
		r, err := q.Replay(t.Context(), deadletter.Replay{Window: window, OnMessage: func(*deadletter.Message, error) {
			if told++; told == 20 {
				eventually(t, "the connections are cut", func() bool { return cut(t, name) })
			}
		}})
		var lost *publisher.Error
		if !errors.Is(err, deadletter.ErrInterrupted) && !errors.As(err, &lost) || r.Done >= n || len(r.Undecided) > window {
			t.Fatalf("%d replayed, unsure %v, %v", r.Done, r.Undecided, err)
		}
		twice := settledTotal(t, queue) - n
		if twice > len(r.Undecided) {
			t.Errorf("%d messages twice, but only %v in doubt", twice, r.Undecided)
		}
		if _, err := deadLetterQueue(t, queue).Replay(t.Context(), deadletter.Replay{Window: window}); err != nil {
			t.Fatal(err)
		}
		checkReplayed(t, queue, n, twice)
	})
}

// TestReplayLosesItsStore kills the store in the middle: whether messages fail again cannot be seen any more.
func TestReplayLosesItsStore(t *testing.T) {
	t.Parallel()
	store := privateStore(t, servers.RedisOptions{})
	eachType(t, func(t *testing.T, queue string) {
		if err := store.Start(t.Context()); err != nil && !strings.Contains(err.Error(), "already") {
			t.Fatal(err)
		}
		const n = 50
		q := withDeadLetters(t, queue, n)
		q.Records = dialStore(t, servertest.Patient(t, store.URL)).Admin()
		told := 0
		r, err := q.Replay(t.Context(), deadletter.Replay{OnMessage: func(*deadletter.Message, error) {
			if told++; told == 20 {
				need(t, store.Kill())
			}
		}})
		var away *counter.StoreError
		if !errors.As(err, &away) || r.Done != 20 || len(r.Undecided) > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		q.Records = nil
		if r, err := q.Replay(t.Context(), deadletter.Replay{}); err != nil || r.Done != n-20 {
			t.Errorf("%+v, %v", r, err)
		}
		if got := ids(getAll(t, queue)); !slices.Equal(got, numbered("m", n)) {
			t.Errorf("%v", got)
		}
	})
}

// TestReplayOfAReader has a user who may read, but not write; and one who may not even read.
func TestReplayOfAReader(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, read string
		depth      int
	}{{"reads", ".*", 3}, {"is a stranger", "^$", 3}} {
		t.Run(tc.name, func(t *testing.T) {
			eachType(t, func(t *testing.T, queue string) {
				q := withDeadLetters(t, queue, 3)
				q.Dial = consumer.Dialer(userWho(t, "^$", "^$", tc.read).String(), amqp.Config{})
				r, err := q.Replay(t.Context(), deadletter.Replay{})
				var refused *publisher.Error
				var reply *amqp.Error
				denied := errors.As(err, &refused) && refused.Code == amqp.AccessRefused ||
					errors.As(err, &reply) && reply.Code == amqp.AccessRefused && !errors.Is(err, deadletter.ErrBusy)
				if !denied || r.Done != 0 || len(r.Undecided) != 0 {
					t.Errorf("%+v, %v", r, err)
				}
				if tc.name == "reads" {
					if got := idsOf(browsed(t, q, deadletter.Filter{})); !slices.Equal(got, numbered("m", 3)) { // without the lock
						t.Errorf("looked: %v", got)
					}
				}
				eventually(t, "all dead letters are still there", func() bool {
					return queueDepth(t, queue+".dlq") == tc.depth
				})
			})
		})
	}
}

// The full run: go test ./integration -run TestReplayKilled -dead.letters 10000 -dead.kills 100 -timeout 20m
var (
	killLetters = flag.Int("dead.letters", 300, "dead letters of TestReplayKilled and TestReplayRate; 600 in .ci/run long")
	killKills   = flag.Int("dead.kills", 4, "kills of TestReplayKilled")
)

// replayer is the configuration of such a process.
type replayer struct {
	AMQP, Queue string
	Window      int
	Pick        bool // by a filter that picks everything
}

func (r replayer) run(ctx context.Context) error {
	q := deadletter.Queue{
		Name: r.Queue, Handling: harmless,
		Dial: func(context.Context) (*amqp.Connection, error) { return amqp.Dial(r.AMQP) },
	}
	replay := deadletter.Replay{Window: r.Window}
	if r.Pick {
		replay.Filter.Older = time.Second
	}
	_, err := q.Replay(ctx, replay)
	return err
}

func (r replayer) spawn(t *testing.T) *exec.Cmd {
	t.Helper()
	cmd := worker{Replay: &r}.command(t)
	need(t, cmd.Start())
	return cmd
}

// diedIn are the headers of a message that a consumer of a queue rejected an hour ago.
func diedIn(queue string) amqp.Table {
	return amqp.Table{"x-death": []any{amqp.Table{"queue": queue, "exchange": "", "reason": "rejected", "count": int64(1),
		"time": time.Now().Add(-time.Hour).Truncate(time.Second), "routing-keys": []any{queue}}}}
}

// makeDeadLetters puts dead letters of a queue into its dead-letter queue.
func makeDeadLetters(t *testing.T, queue string, ids []string) {
	t.Helper()
	msgs := make([]publisher.Message, len(ids))
	for i, id := range ids {
		msgs[i] = publisher.Message{Key: queue + ".dlq", Publishing: amqp.Publishing{
			MessageId: id, Body: []byte("an order"), Headers: diedIn(queue),
		}}
	}
	publishAll(t, msgs...)
}

// TestReplayKilled kills a replay over and over at random moments. Nothing may be lost, and each time no more than a
// window may be published twice, under one id and one generation.
func TestReplayKilled(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, mode := range []replayer{{Window: 1}, {Window: 20}, {Window: 1, Pick: true}, {Window: 16, Pick: true}} {
		t.Run(fmt.Sprintf("window %d, pick %v", mode.Window, mode.Pick), func(t *testing.T) {
			eachType(t, func(t *testing.T, queue string) {
				t.Parallel() // most of it is waiting
				mode := mode // its own
				mode.AMQP, mode.Queue = brokerURL(t), queue+".dlq"
				n, extra := *killLetters, 0
				makeDeadLetters(t, queue, numbered("m", n))
				for kill := range *killKills {
					left := queueDepth(t, mode.Queue)
					cmd := mode.spawn(t)
					come := n + extra - max(left-rand.IntN(2*n / *killKills + 1), 0)
					if mode.Pick { // a kill while it reads changes the order
						come = max(come, queueDepth(t, queue)+1)
					}
					for queueDepth(t, queue) < come && alive(cmd) {
						time.Sleep(time.Millisecond)
					}
					time.Sleep(time.Duration(rand.IntN(5000)) * time.Microsecond) // not only just after a confirm
					_ = cmd.Process.Kill()
					_ = cmd.Wait()
					twice := settledTotal(t, queue) - n
					if twice < extra || twice > extra+mode.Window {
						t.Fatalf("kill %d: %d messages twice, %d before", kill+1, twice, extra)
					}
					extra = twice
				}
				cmd := mode.spawn(t)
				need(t, cmd.Wait())
				checkReplayed(t, queue, n, extra)
				t.Logf("%d kills, %d messages lost, %d twice", *killKills, 0, extra)
			})
		})
	}
}

// alive reports whether a process that was started has not ended by itself.
func alive(cmd *exec.Cmd) bool {
	var status syscall.WaitStatus
	pid, err := syscall.Wait4(cmd.Process.Pid, &status, syscall.WNOHANG, nil)
	return err == nil && pid == 0
}

// settledTotal counts the messages of both queues once no consumer holds any.
func settledTotal(t *testing.T, queue string) (total int) {
	t.Helper()
	eventually(t, "the killed process is gone from the broker", func() bool {
		return consumers(t, queue+".dlq") == 0
	})
	last := -1
	eventually(t, "the queues are quiet", func() bool {
		last, total = total, queueDepth(t, queue)+queueDepth(t, queue+".dlq")
		return last == total && total > 0
	})
	return total
}

// checkReplayed checks the messages that came back: each of them, in order if repeated ones are left out, and no
// others.
func checkReplayed(t *testing.T, queue string, n, extra int) {
	t.Helper()
	if left := queueDepth(t, queue+".dlq"); left != 0 {
		t.Errorf("%d dead letters are left", left)
	}
	generations := map[string]string{}
	next, twice := 0, 0
	for _, d := range getAll(t, queue) {
		generation, _ := d.Headers[deadletter.GenerationHeader].(string)
		lineage, _ := d.Headers[deadletter.LineageHeader].(amqp.Table)
		if first, seen := generations[d.MessageId]; seen {
			if twice++; first != generation || lineage["again"] != true {
				t.Errorf("%s came again: generation %q, then %q, lineage %v", d.MessageId, first, generation, lineage)
			}
			continue
		}
		if want := fmt.Sprint("m", next); d.MessageId != want {
			t.Errorf("%s came instead of %s", d.MessageId, want)
		}
		generations[d.MessageId] = generation
		next++
	}
	if len(generations) != n || twice != extra {
		t.Errorf("%d of %d messages, %d twice, want %d", len(generations), n, twice, extra)
	}
}

// TestReplayRate tells how fast a replay is.
func TestReplayRate(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, window := range []int{1, 100} {
		eachType(t, func(t *testing.T, queue string) {
			n := *killLetters
			makeDeadLetters(t, queue, numbered("m", n))
			began := time.Now()
			r, err := deadLetterQueue(t, queue).Replay(t.Context(), deadletter.Replay{Window: window})
			if err != nil || r.Done != n {
				t.Fatalf("%+v, %v", r, err)
			}
			t.Logf("window %d: %.0f messages/s", window, float64(n)/time.Since(began).Seconds())
		})
	}
}

// wantNoted checks whether the store notes a replay of the queue that may have been cut off.
func wantNoted(t *testing.T, a *counter.Admin, queue string, want bool) {
	t.Helper()
	if at, err := a.Replaying(t.Context(), "/", queue); err != nil || at.IsZero() == want {
		t.Errorf("a replay that may have been cut off is noted at %v, %v; want %v", at, err, want)
	}
}

// TestNoteOfAReplay: the note stays while a message may be both published and in the dead-letter queue. It may be a
// message of this replay, or of an earlier one that left its note.
func TestNoteOfAReplay(t *testing.T) {
	t.Parallel()
	const n = 3
	picked := deadletter.Replay{Filter: deadletter.Filter{IDs: []string{"m1"}}}
	stopped := deadletter.Replay{Target: &deadletter.Target{Key: "none"}}
	for name, tt := range map[string]struct {
		r       deadletter.Replay
		cut     string // cuts the connections "published", before the message is taken off, or "after" the last
		earlier bool   // an earlier one was cut off
		want    bool
	}{
		"everything":                        {},
		"everything, earlier":               {earlier: true},
		"a part":                            {r: deadletter.Replay{Max: 2}},
		"a part, earlier":                   {r: deadletter.Replay{Max: 2}, earlier: true, want: true},
		"maybe a part, earlier":             {r: deadletter.Replay{Max: n}, earlier: true, want: true},
		"picked":                            {r: picked},
		"picked, earlier":                   {r: picked, earlier: true, want: true},
		"no such queue":                     {r: stopped},
		"no such queue, earlier":            {r: stopped, earlier: true, want: true},
		"undecided":                         {cut: "published", want: true},
		"the connection is lost at the end": {cut: "after", want: true},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			admin := counters(t).Admin()
			q := withDeadLetters(t, declared(t, "classic"), n)
			if q.Returns = admin; tt.earlier {
				need(t, admin.NoteReplay(t.Context(), "/", q.Name, true))
			}
			own := uniqueName(t, "replay")
			dial := namedDialer(t, own)
			var mu sync.Mutex
			var conns []*amqp.Connection
			q.Dial = func(ctx context.Context) (*amqp.Connection, error) {
				conn, err := dial(ctx)
				mu.Lock()
				defer mu.Unlock()
				conns = append(conns, conn)
				return conn, err
			}
			cutAt := func(when string, done int) {
				if tt.cut != when || done < n {
					return
				}
				eventually(t, "the connections are cut", func() bool {
					mu.Lock()
					defer mu.Unlock()
					_ = cut(t, own)
					return conns[0].IsClosed() && conns[1].IsClosed()
				})
			}
			told := 0
			tt.r.OnMessage = func(*deadletter.Message, error) { told++; cutAt("published", told) }
			q.Progress = func(p deadletter.Progress) { cutAt("after", p.Done) }
			r, err := q.Replay(t.Context(), tt.r)
			if (tt.cut == "published") != (len(r.Undecided) > 0) {
				t.Errorf("undecided %q, %v", r.Undecided, err)
			}
			wantNoted(t, admin, q.Name, tt.want)
		})
	}
}

// forgetful is a store that takes no note of published dead letters.
type forgetful struct{ deadletter.Lanes }

func (forgetful) NotePublished(context.Context, string, string, string, []counter.LaneLetter) error {
	return errors.New("down")
}

// TestNoteOfALaneReplay: a lane whose message fails again leaves none in doubt. One that was published and not taken
// off is in doubt, whatever later replays of lanes do.
func TestNoteOfALaneReplay(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 3)
	q, lane := l.open(t, "lane")
	admin := l.counts.Admin()
	q.Returns = admin
	if r, err := q.ReplayLane(t.Context(), lane); !errors.Is(err, deadletter.ErrLaneFailed) {
		t.Errorf("%+v, %v", r, err)
	}
	wantNoted(t, admin, q.Name, false)
	l.fix()
	down := lane
	down.Store = forgetful{admin}
	if r, err := q.ReplayLane(t.Context(), down); err == nil {
		t.Errorf("%+v", r)
	}
	wantNoted(t, admin, q.Name, true)
	if r, err := q.ReplayLane(t.Context(), lane); err != nil || !r.Released {
		t.Errorf("%+v, %v", r, err)
	}
	wantNoted(t, admin, q.Name, true)
}

// TestNoteBetweenPassesOfALane: another process that replays the queue between two passes may be cut off. The replay of
// the lane does not remove its note.
func TestNoteBetweenPassesOfALane(t *testing.T) {
	t.Parallel()
	l := blockedLane(t, 3)
	l.fix()
	q, lane := l.open(t, "lane")
	admin := l.counts.Admin()
	reads := 0
	lane.Store = &watchedLane{Lanes: admin, before: func() {
		if reads++; reads == 3 { // after the first pass
			need(t, admin.NoteReplay(t.Context(), "/", q.Name, true))
		}
	}}
	q.Returns = admin
	if r, err := q.ReplayLane(t.Context(), lane); err != nil || r.Passes != 2 {
		t.Errorf("%+v, %v", r, err)
	}
	wantNoted(t, admin, q.Name, true)
}
