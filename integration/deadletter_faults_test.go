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
		need(t, errOf(deadLetterQueue(t, queue).Replay(t.Context(), deadletter.Replay{Window: window})))
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
	return errOf(q.Replay(ctx, replay))
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
		if first, seen := generations[d.MessageId]; seen {
			if twice++; first != generation {
				t.Errorf("%s came again: generation %q, then %q", d.MessageId, first, generation)
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
