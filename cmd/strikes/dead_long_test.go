package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
)

// The full run: go test ./cmd/strikes -run TestDeadOfMany -v -dead.letters 100000
var manyDead = flag.Int("dead.letters", 1000, "dead letters of TestDeadOfMany; 3,000 in .ci/run long")

// TestDeadOfMany prints the time and memory of the commands on a long dead-letter queue. Memory, and the time of
// commands that need a part of the queue, must not grow with it.
func TestDeadOfMany(t *testing.T) {
	servertest.Long(t)
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			queue, n := newQueue(t), *manyDead
			buryMany(t, kind, queue, n)
			last := fmt.Sprint("m", n-1)
			for _, tc := range []struct {
				part bool // quick
				out  string
				err  string
				args []string
			}{
				{true, "m4 ", "", []string{"list", "--limit", "5", queue}},
				{true, "no stock", "headers and body were not read", []string{"show", queue, last}},
				{true, "an order", "", []string{"show", "--body", queue, "m3"}},
				{true, fmt.Sprint(n), "from the store's records", []string{"list", "--groups", queue}},
				{false, "an order", "", []string{"show", "--body", queue, last}},
				{false, last + " ", "", []string{"list", queue}},
				{false, fmt.Sprint(n), "", []string{"list", "--groups", "--read", queue}},
				// after the whole queue was read
				{true, "no stock", "headers and body were not read", []string{"show", queue, last}},
				{true, fmt.Sprint(n), "from the store's records", []string{"list", "--groups", queue}},
				{false, "m4 ", "", []string{"list", "--limit", "5", queue}}, // after the whole queue was read
			} {
				best, most, first := time.Hour, int64(0), time.Hour
				for range 3 {
					out, errs, took, until, rss := timed(t, queue, tc.args)
					if !strings.Contains(out, tc.out) || !strings.Contains(errs, tc.err) {
						t.Fatalf("%q: %s\n%s", tc.args, printable.Line(out, 500), errs)
					}
					best, first, most = min(best, took), min(first, until), max(most, rss)
				}
				t.Logf("%-34s %6v, the first output after %6v, %3d MB", strings.Replace(strings.Join(tc.args, " "), queue, "Q", 1),
					best.Round(time.Millisecond), first.Round(time.Millisecond), most>>10)
				if n > 20_000 && (tc.part && best > 500*time.Millisecond || most > 200<<10) {
					t.Errorf("%q: %v, %d MB", tc.args, best, most>>10)
				}
			}
		})
	}
}

// firstWrite keeps the written text, and the time of the first write.
type firstWrite struct {
	strings.Builder
	at time.Time
}

func (w *firstWrite) Write(p []byte) (int, error) {
	if w.at.IsZero() {
		w.at = time.Now()
	}
	return w.Builder.Write(p)
}

// timed runs a command of strikes dead. rss is in kB.
func timed(t *testing.T, queue string, args []string) (out, errs string, took, first time.Duration, rss int64) {
	t.Helper()
	cmd := strikesOn(t, queue, append([]string{"dead"}, args...)...)
	cmd.Env = append(cmd.Env, "STRIKES_MANAGEMENT_URL="+managementURL(t))
	var stdout firstWrite
	var stderr strings.Builder
	cmd.Stdout, cmd.Stderr = &stdout, &stderr
	began := time.Now()
	need(t, cmd.Start())
	done := make(chan struct{})
	var peak int64
	var wg sync.WaitGroup
	wg.Go(func() { peak = memory(cmd.Process.Pid, done) })
	err := cmd.Wait()
	took = time.Since(began)
	close(done)
	wg.Wait()
	if err != nil {
		t.Fatalf("%q: %v\n%s", args, err, &stderr)
	}
	return stdout.String(), stderr.String(), took, stdout.at.Sub(began), peak
}

// memory is the most that a process has in memory until it is done, in kB. (The figure of wait4 begins with the memory
// of the process that started it.)
func memory(pid int, done <-chan struct{}) (peak int64) {
	poll := time.NewTicker(2 * time.Millisecond)
	defer poll.Stop()
	for {
		status, _ := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
		if _, line, ok := strings.Cut(string(status), "VmHWM:"); ok {
			var kB int64
			if _, err := fmt.Sscan(line, &kB); err == nil {
				peak = max(peak, kB)
			}
		}
		select {
		case <-done:
			return peak
		case <-poll.C:
		}
	}
}

// buryMany makes dead letters m0, m1, … with a record each.
func buryMany(t *testing.T, kind, queue string, n int) {
	t.Helper()
	b, err := connect.NewBroker(brokerURL(t), "test", "--amqp-url")
	need(t, err)
	if kind == "classic" {
		withChannel(t, func(ch *amqp.Channel) error {
			return deadLettering(ch, queue, queue+".dlq", amqp.Table{"x-queue-type": "classic"})
		})
	} else {
		mustOutput(t, strikesOn(t, queue, "declare", queue))
	}
	died := countMany(t, b.VHost, queue, n)
	msgs := make([]publisher.Message, n)
	for i := range msgs {
		death := amqp.Table{"queue": queue, "exchange": "", "reason": "rejected", "count": int64(1), "time": died[i],
			"routing-keys": []any{queue}}
		msgs[i] = publisher.Message{Key: queue + ".dlq", Publishing: amqp.Publishing{
			MessageId: fmt.Sprint("m", i), Body: []byte("an order"), Headers: amqp.Table{"x-death": []any{death}},
		}}
	}
	to, err := publisher.New(b.DialToPublish, nil)
	need(t, err)
	need(t, errors.Join(to.PublishAll(t.Context(), msgs), to.Close()))
}

// countMany makes the records, and says when.
func countMany(t *testing.T, vhost, queue string, n int) []time.Time {
	t.Helper()
	store := storeOf(t, storeURL(t), queue)
	var wg sync.WaitGroup
	const workers = 8
	at := make([]time.Time, n)
	for w := range workers {
		wg.Go(func() {
			for i := w; i < n; i += workers {
				a := counter.Attempt{Message: counter.Message{VHost: vhost, Queue: queue, ID: fmt.Sprint("m", i)},
					Token: uuid.NewString()}
				if _, err := store.Fail(context.Background(), a, counter.Failure{Reason: "no stock"}); err != nil {
					t.Error(err)
					return
				}
				at[i] = time.Now()
			}
		})
	}
	wg.Wait()
	if t.Failed() {
		t.FailNow()
	}
	return at
}
