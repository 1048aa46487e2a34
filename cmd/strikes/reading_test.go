package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"net/url"
	"strings"
	"testing"

	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/queueinfo"
)

// The full run: go test ./cmd/strikes -run TestReadingKeepsDeadLetters -reading.runs 2000 -timeout 1h
var readings = flag.Int("reading.runs", 12, "runs of each command and page of TestReadingKeepsDeadLetters")

// TestReadingKeepsDeadLetters runs each command and each page that reads a dead-letter queue over and over. Every dead letter stays: also
// in a queue whose delivery limit is below the number of runs, where not even a refusal may cost a delivery.
func TestReadingKeepsDeadLetters(t *testing.T) {
	for _, tt := range []struct {
		limit    int64
		returned bool // reading it is harmless, so it is read
	}{{1000, false}, {queueinfo.DeadLetterLimit, true}} {
		t.Run(fmt.Sprint(tt.limit), func(t *testing.T) {
			queue := "cli." + uuid.NewString()
			t.Cleanup(func() {
				if err := errors.Join(forget(brokerURL(t), queue), forgetKeys(storeURL(t), queue)); err != nil {
					t.Error(err)
				}
			})
			buryInto(t, queue, tt.limit)
			reads := append(readingCommands(t, queue), readingPages(t, queue)...)
			for range *readings {
				for _, read := range reads {
					read()
				}
			}
			n, err := readyIn(brokerURL(t), queue+".dlq")
			if err != nil || n != 3 {
				t.Errorf("%d dead letters are left of 3, %v", n, err)
			}
			if returns := returnsIn(t, queue+".dlq"); returns > 0 != tt.returned {
				t.Errorf("a dead letter was returned %d times", returns)
			}
		})
	}
}

// buryInto makes three dead letters in a quorum queue with a delivery limit.
func buryInto(t *testing.T, queue string, limit int64) {
	t.Helper()
	mustOutput(t, strikesOn(t, queue, "declare", queue))
	withChannel(t, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDelete(queue+".dlq", false, false, false); err != nil {
			return err
		}
		args := amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": limit}
		if _, err := ch.QueueDeclare(queue+".dlq", true, false, false, false, args); err != nil {
			return err
		}
		return ch.QueueBind(queue+".dlq", "", queue+".dlx", false, nil)
	})
	publish := strikesOn(t, queue, "publish", "--ndjson", queue)
	publish.Stdin = strings.NewReader(`{"id":"a","body":"b","headers":{"tenant":"7"}}` + "\n" +
		`{"id":"b","body":"b","headers":{"tenant":"7"}}` + "\n" + `{"id":"c","body":"b"}` + "\n")
	mustOutput(t, publish)
	mustOutput(t, strikesOn(t, queue, "consume", queue, "--max-retries", "0", "--exit-when-idle", "300ms", "--", "false"))
}

func withChannel(t *testing.T, f func(*amqp.Channel) error) {
	t.Helper()
	b, err := connect.NewBroker(brokerURL(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	if err := b.With(t.Context(), func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		return f(ch)
	}); err != nil {
		t.Fatal(err)
	}
}

// returnsIn is how often the first message was returned.
func returnsIn(t *testing.T, queue string) (returns int64) {
	t.Helper()
	withChannel(t, func(ch *amqp.Channel) error {
		d, ok, err := ch.Get(queue, false)
		if err == nil && !ok {
			err = errors.New("the queue is empty")
		}
		returns = queueinfo.Integer(d.Headers["x-delivery-count"])
		return err
	})
	return returns
}

// readingCommands are the commands that read, without the process around them.
func readingCommands(t *testing.T, queue string) (reads []func()) {
	servers := []string{"--amqp-url", brokerURL(t), "--redis-url", storeURL(t), "--prefix", queue, "--management-url", managementURL(t)}
	byLane := []string{"--lane-header", "tenant", "--lane", "7"}
	for _, args := range [][]string{
		{"list", queue},
		append([]string{"list", queue}, byLane...),
		{"list", queue, "--groups", "--read"},
		{"show", queue, "a"},
		{"show", queue, "a", "--json"},
		append([]string{"replay", queue, "--dry-run"}, byLane...),
		{"replay", queue, "--dry-run", "--all"},
		append([]string{"drop", queue, "--dry-run", "--to", "kept"}, byLane...),
		append([]string{"replay", queue, "--yes", "--why", "none matches", "--error", "no such error"}, byLane...),
	} {
		reads = append(reads, func() {
			var errs strings.Builder
			s := cli.Streams{In: strings.NewReader(""), Out: io.Discard, Err: &errs}
			if code := run(t.Context(), s, append(append([]string{"strikes", "dead"}, args...), servers...)); code != 0 && code != cli.ExitMisuse && code != cli.ExitNothing {
				t.Fatalf("dead %q: exit code %d: %s", args, code, &errs)
			}
		})
	}
	return reads
}

// readingPages are the requests to a console that may change nothing, and that of its forms that read.
func readingPages(t *testing.T, queue string) (reads []func()) {
	b, err := connect.NewBroker(brokerURL(t), "test")
	if err != nil {
		t.Fatal(err)
	}
	store, err := counter.Dial(storeURL(t), &counter.Options{Prefix: queue})
	if err != nil {
		t.Fatal(err)
	}
	c, err := console.New(console.Options{Store: store, Dial: b.Dial, VHost: b.VHost, Management: managementURL(t)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = errors.Join(c.Close(), store.Close()) })
	byLane := "queue=" + url.QueryEscape(queue) + "&lane-header=tenant&lane=7"
	for _, to := range []string{
		"GET /dead?" + byLane, "GET /replay?" + byLane, "GET /drop?" + byLane, "GET /message?id=a&queue=" + url.QueryEscape(queue),
		"POST /message?id=a&queue=" + url.QueryEscape(queue), "POST /count?verb=replay&" + byLane, "POST /count?verb=drop&" + byLane,
	} {
		reads = append(reads, func() {
			method, path, _ := strings.Cut(to, " ")
			r := httptest.NewRequestWithContext(t.Context(), method, "http://localhost"+path, nil)
			r.RemoteAddr = "127.0.0.1:1"
			w := httptest.NewRecorder()
			if c.ServeHTTP(w, r); w.Code != http.StatusOK && w.Code != http.StatusConflict {
				t.Fatalf("%s: %d: %s", to, w.Code, w.Body)
			}
		})
	}
	return reads
}

// TestListBesideAnUndecodableDeadLetter: one message that the client cannot decode does not hide the others.
func TestListBesideAnUndecodableDeadLetter(t *testing.T) {
	queue := "cli." + uuid.NewString()
	t.Cleanup(func() { _ = errors.Join(forget(brokerURL(t), queue), forgetKeys(storeURL(t), queue)) })
	buryInto(t, queue, queueinfo.DeadLetterLimit)
	withChannel(t, func(ch *amqp.Channel) error {
		deep := amqp.Table{}
		for range 40 {
			deep = amqp.Table{"t": deep}
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		confirm, err := ch.PublishWithDeferredConfirm("", queue+".dlq", true, false, amqp.Publishing{MessageId: "bad", Headers: deep})
		if err == nil {
			confirm.Wait()
		}
		return err
	})
	var out, errs strings.Builder
	args := []string{"strikes", "dead", "list", queue, "--amqp-url", brokerURL(t), "--redis-url", storeURL(t), "--prefix", queue, "--management-url", managementURL(t)}
	if code := run(t.Context(), cli.Streams{In: strings.NewReader(""), Out: &out, Err: &errs}, args); code != 0 || strings.Count(out.String(), "\n") != 4 {
		t.Errorf("exit code %d: %s", code, &out)
	}
	for _, want := range []string{"cannot be decoded", "ack_requeue_false", queue + ".dlq/get", "from the store's records"} {
		if !strings.Contains(errs.String(), want) {
			t.Errorf("it does not say %q: %s", want, &errs)
		}
	}
}
