package bench

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/rig"
	"github.com/strikesmq/strikes/internal/servertest"
)

var need = servertest.Need

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

// benchOf returns a short bench on the tests' broker.
func benchOf(t *testing.T, flags ...string) *bench {
	t.Helper()
	c, err := parseFlags(append([]string{"-amqp-url", servertest.BrokerURL(t), "-messages", "100", "-rounds", "1"},
		flags...))
	need(t, err)
	return newBench(c)
}

// TestQuick checks the shape of a result, never how fast anything was: every contestant settled every message, and
// nothing is left.
func TestQuick(t *testing.T) {
	servertest.Long(t)
	b := benchOf(t, "-failing", "0,10")
	r, err := b.run(t.Context())
	need(t, err)
	if r.Messages != 100 || r.Rounds != 1 || r.Seconds <= 0 || !strings.HasPrefix(r.Broker, "RabbitMQ ") ||
		!strings.HasPrefix(r.Store, "Redis ") {
		t.Errorf("%+v", r)
	}
	met := map[string]int{}
	for _, c := range r.Cases {
		met[c.Contest]++
		checkCase(t, c)
	}
	want := map[string]int{success: 6, failing: 22, ordered: 10, orderedFailing: 4, pushing: 8, publishing: 4}
	if slices.ContainsFunc(r.Cases, func(c *Case) bool { return c.Name == withDelay }) { // the virtual host has the lane
		want[success] += 2
		want[failing] += 2
	}
	for contest, n := range want {
		if met[contest] != n {
			t.Errorf("%s: %d cases, want %d", contest, met[contest], n)
		}
	}
	for _, x := range r.Ratios {
		if x.Median <= 0 || x.Least > x.Median || x.Most < x.Median {
			t.Errorf("%+v", x)
		}
	}
	wantGone(t, b)
}

func checkCase(t *testing.T, c *Case) {
	t.Helper()
	if len(c.Rates) != 1 || c.Rates[0] <= 0 || c.Median != c.Rates[0] {
		t.Errorf("%s: rates %v, median %v", c, c.Rates, c.Median)
	}
	switch c.Contest {
	case success, failing, ordered, orderedFailing, pushing:
		dead := c.Failing // of a hundred messages
		if c.Messages != 100 || c.DeadLettered != dead || c.Attempts != 100+retries*dead {
			t.Errorf("%s: %d messages, %d dead-lettered, %d attempts", c, c.Messages, c.DeadLettered, c.Attempts)
		}
	case publishing:
		if c.Messages != 100 {
			t.Errorf("%s: %d messages", c, c.Messages)
		}
	}
}

// wantGone fails if a queue of b is left.
func wantGone(t *testing.T, b *bench) {
	t.Helper()
	node := &rig.Node{URL: b.amqpURL}
	for n := range b.queues {
		for _, ending := range []string{"", ".dlq"} {
			var reply *amqp.Error
			name := fmt.Sprint(b.name, "-", n+1, ending)
			if _, err := node.Queue(name); !errors.As(err, &reply) || reply.Code != amqp.NotFound {
				t.Errorf("queue %s is left: %v", name, err)
			}
		}
	}
}

// TestNothingFailsForSoundRows: HoldLanes without a blocked lane, and DelayAbove without a long delay, are measured
// without failures only.
func TestNothingFailsForSoundRows(t *testing.T) {
	servertest.Long(t)
	c, err := parseFlags(nil)
	need(t, err)
	met := map[string]int{}
	for _, c := range cases(c) {
		if c.sound {
			met[c.Contest]++
			if c.Failing > 0 {
				t.Errorf("%s fails", c)
			}
		}
	}
	if met[success] != 2 || met[failing] != 2 || met[ordered] != 2 {
		t.Errorf("cases: %v, want 2 for each of %s, %s, %s", met, success, failing, ordered)
	}
}

// TestForeignQueuesAreLeftAlone runs into a queue that exists.
func TestForeignQueuesAreLeftAlone(t *testing.T) {
	servertest.Long(t)
	b := benchOf(t, "-only", success)
	conn, err := amqp.Dial(b.amqpURL)
	need(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	need(t, err)
	queue := b.name + "-2"
	if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
		t.Fatal(err)
	}
	if _, err = b.run(t.Context()); err == nil || !strings.Contains(err.Error(), queue) || !strings.Contains(err.Error(),
		"exists") {
		t.Errorf("the error is %v", err)
	}
	if _, err := ch.QueueDelete(queue, false, false, false); err != nil {
		t.Errorf("the queue is gone: %v", err)
	}
	wantGone(t, b)
}

// TestInterrupted stops a bench at various moments.
func TestInterrupted(t *testing.T) {
	servertest.Long(t)
	for _, after := range []int{1, 3, 6} {
		b := benchOf(t, "-only", failing)
		ctx, stop := context.WithTimeout(t.Context(), time.Minute)
		defer stop()
		b.progress = func(done, _ int, _ string) {
			if done+1 == after {
				time.AfterFunc(30*time.Millisecond, stop) // in the middle of a contestant, mostly
			}
		}
		if _, err := b.run(ctx); !errors.Is(err, context.Canceled) {
			t.Errorf("stopped in step %d, it ended with %v", after, err)
		}
		wantGone(t, b)
	}
}

func TestPrint(t *testing.T) {
	servertest.Long(t)
	var out bytes.Buffer
	err := (&result{
		Broker: "RabbitMQ 4.0\x1b[31m", Store: "Redis 7", Messages: 3000, Rounds: 5,
		Ratios: []ratio{
			{Contest: failing, Of: strikes, To: "by hand", Queue: "quorum", Failing: 10, OfRate: 9000, ToRate: 6000,
				Median: 1.5, Least: 1.4, Most: 1.6, Goal: 2},
		},
		Cases: []*Case{
			{Contest: failing, Name: "by hand", Queue: "quorum", Failing: 10, Cost: &cost{Broker: 50.4, Store: 3, Client: 20}},
			{Contest: success, Name: "of servers elsewhere"},
		},
	}).print(&out)
	need(t, err)
	for _, want := range []string{
		"failing  quorum  10%", "9000", "by hand", "1.50   1.40-1.60  >= 2.00 missed\n",
		"failing  quorum  10%      by hand     50      3      20      73\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "elsewhere") {
		t.Errorf("an unknown cost is shown:\n%s", &out)
	}
	if strings.Contains(out.String(), "\x1b") {
		t.Error("an escape sequence reaches the terminal")
	}
}

func TestFlagsAreChecked(t *testing.T) {
	servertest.Long(t)
	for _, args := range []string{
		"-only speed", "-only ,", "-type stream", "-failing some", "-failing -1", "-failing 101", "-messages 0",
		"-messages 10", "-messages -1",
		"-rounds -1", "-rounds 1000", "-concurrency 101", "-time 0s", "-time -1s",
		"-only ordered-failing -failing 0", "more",
	} {
		if _, err := parseFlags(strings.Fields(args)); err == nil {
			t.Errorf("%q is accepted", args)
		}
	}
	for _, args := range []string{"", "-failing 0", "-failing 0%,10% -type quorum -only success,publish"} {
		if _, err := parseFlags(strings.Fields(args)); err != nil {
			t.Errorf("%q: %v", args, err)
		}
	}
}
