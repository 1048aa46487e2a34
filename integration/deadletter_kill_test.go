package integration

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"os/exec"
	"syscall"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
)

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

// makeDeadLetters puts dead letters m0, m1, … of a queue into its dead-letter queue.
func makeDeadLetters(t *testing.T, queue string, n int) {
	t.Helper()
	died := time.Now().Add(-time.Hour).Truncate(time.Second)
	msgs := make([]publisher.Message, n)
	for i := range msgs {
		death := amqp.Table{"queue": queue, "exchange": "", "reason": "rejected", "count": int64(1), "time": died,
			"routing-keys": []any{queue}}
		msgs[i] = publisher.Message{Key: queue + ".dlq", Publishing: amqp.Publishing{
			MessageId: fmt.Sprint("m", i), Body: []byte("an order"), Headers: amqp.Table{"x-death": []any{death}},
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
				makeDeadLetters(t, queue, n)
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
	proctest.Eventually(t, time.Minute, "the killed process is gone from the broker", func() bool {
		return consumers(t, queue+".dlq") == 0
	})
	last := -1
	proctest.Eventually(t, time.Minute, "the queues are quiet", func() bool {
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
			makeDeadLetters(t, queue, n)
			began := time.Now()
			r, err := deadLetterQueue(t, queue).Replay(t.Context(), deadletter.Replay{Window: window})
			if err != nil || r.Done != n {
				t.Fatalf("%+v, %v", r, err)
			}
			t.Logf("window %d: %.0f messages/s", window, float64(n)/time.Since(began).Seconds())
		})
	}
}
