package main

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"net"
	"net/http"
	"net/http/httptest"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/reason"
)

// The full run: go test ./cmd/strikes -run TestReadingKeepsDeadLetters -reading.runs 2000 -timeout 1h
var readings = flag.Int("reading.runs", 2, "runs of each command and page of TestReadingKeepsDeadLetters")

// TestReadingKeepsDeadLetters runs each command and each page that reads a dead-letter queue over and over. Every dead
// letter stays: also in a queue whose delivery limit is below the number of runs, where not even a refusal may cost a
// delivery.
func TestReadingKeepsDeadLetters(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		limit    int64
		lanes    bool // the dead letters block lanes
		returned bool // reading it is harmless, so it is read
	}{{1000, false, false}, {1000, true, false}, {broker.DeadLetterLimit, false, true},
		{broker.DeadLetterLimit, true, true}} {
		t.Run(fmt.Sprintf("limit %d, lanes %v", tt.limit, tt.lanes), func(t *testing.T) {
			t.Parallel() // most of it is waiting
			queue := newQueue(t)
			buryInto(t, queue, tt.limit, tt.lanes)
			reads := append(readingCommands(t, queue), readingPages(t, queue)...)
			if tt.lanes {
				reads = append(reads, laneCommands(t, queue, !tt.returned)...)
			}
			for i := range *readings {
				for _, read := range reads {
					read()
				}
				if (i+1)%100 == 0 {
					t.Logf("%d runs", i+1)
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

// buryInto makes three dead letters, in order, in a quorum queue with a delivery limit. With lanes, two of them block a
// lane and the other waits behind.
func buryInto(t *testing.T, queue string, limit int64, lanes bool) {
	t.Helper()
	declare, consume := []string{"declare", queue}, []string{"consume", queue, "--max-retries", "0", "--exit-when-idle",
		"300ms", "--concurrency", "1"}
	if lanes {
		declare = append(declare, "--single-active-consumer")
		consume = append(consume, "--ordered", "--lane-header", "tenant", "--hold-lanes")
	}
	mustOutput(t, strikesOn(t, queue, declare...))
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
	publishLines(t, queue, `{"id":"a","body":"b","headers":{"tenant":"7"}}
		{"id":"b","body":"b","headers":{"tenant":"7"}}
		{"id":"c","body":"b"}`, "--ndjson")
	mustOutput(t, strikesOn(t, queue, append(consume, "--", "false")...))
}

// returnsIn is how often the first message was returned.
func returnsIn(t *testing.T, queue string) (returns int64) {
	t.Helper()
	withChannel(t, func(ch *amqp.Channel) error {
		d, ok, err := ch.Get(queue, false)
		if err == nil && !ok {
			err = errors.New("the queue is empty")
		}
		returns = broker.Integer(d.Headers["x-delivery-count"])
		return err
	})
	return returns
}

// serverFlags are the flags that lead a command run in this process to the servers.
func serverFlags(t *testing.T, queue string) []string {
	return []string{"--amqp-url", brokerURL(t), "--store-url", storeURL(t), "--prefix", queue, "--management-url",
		managementURL(t)}
}

// inProcess is called with the servers of the tests.
func inProcess(t *testing.T, queue string, args ...string) (code int, out, errs string) {
	t.Helper()
	return called(t, slices.Concat(args, serverFlags(t, queue))...)
}

// thatRead makes functions of command lines, which may find nothing and may be refused.
func thatRead(t *testing.T, queue string, lines [][]string) (reads []func()) {
	for _, args := range lines {
		reads = append(reads, func() {
			if code, _, errs := inProcess(t, queue, args...); code != 0 && code != cli.ExitMisuse && code != cli.ExitNothing {
				t.Fatalf("%q: exit code %d: %s", args, code, errs)
			}
		})
	}
	return reads
}

// readingCommands are the commands that read, without the process around them.
func readingCommands(t *testing.T, queue string) (reads []func()) {
	code, groups, errs := inProcess(t, queue, "dead", "list", queue, "--groups", "--json")
	var group struct{ Key string }
	if err := json.NewDecoder(strings.NewReader(groups)).Decode(&group); err != nil || group.Key == "" {
		t.Fatalf("exit code %d: %s%s: %v", code, groups, errs, err)
	}
	return thatRead(t, queue, [][]string{
		{"dead", "list", queue, "--read"},
		{"dead", "list", queue, "--groups", "--read"},
		{"dead", "show", queue, "a", "--read"},
		{"dead", "show", queue, "a", "--json"},
		{"dead", "show", queue, "a", "--no-store"},
		{"dead", "replay", queue, "--dry-run", "--all"},
		{"dead", "replay", queue, "--dry-run", "--group", group.Key},
		{"dead", "replay", queue, "--yes", "--why", "none matches", "--error", "no such error"},
	})
}

// laneCommands are those that read a lane. Where reading is refused they are told to change it; else they ask, and end
// without an answer.
func laneCommands(t *testing.T, queue string, refused bool) (reads []func()) {
	lines := [][]string{
		{"lane", "list", queue},
		{"lane", "replay", queue, "7", "--why", "w"},
		{"lane", "replay", queue, "--all", "--why", "w"},
		{"lane", "release", queue, "7", "--why", "w", "--to", "kept"},
		{"lane", "drop", queue, "7", "--why", "w", "--to", "kept"},
		{"lane", "replay", queue, "no such lane", "--why", "w", "--yes"},
	}
	if refused {
		for i := range lines[1:5] {
			lines = append(lines, append(slices.Clone(lines[1+i]), "--yes"))
		}
	}
	return thatRead(t, queue, lines)
}

// TestPipeHoldsNoDeadLetters: a reader of the output that takes its time, or ends, finds all dead letters in their
// queue, and so keeps their order.
func TestPipeHoldsNoDeadLetters(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	buryInto(t, queue, broker.DeadLetterLimit, false)
	for _, args := range []string{"list --read", "list --read --json --limit 2", "list --read --limit 2", "show --read ID",
		"show --read --body ID", "replay --dry-run --all --json", "replay --dry-run --kind failed --max 2"} {
		line := strings.Fields("dead " + strings.ReplaceAll(args, "ID", "a") + " " + queue)
		if i := slices.Index(line, "a"); i > 0 {
			line[i], line[len(line)-1] = queue, "a"
		}
		out, errs := &depthReader{t: t, queue: queue + ".dlq"}, &strings.Builder{}
		code := run(t.Context(), cli.Streams{Out: out, Err: errs},
			slices.Concat([]string{"strikes"}, line, serverFlags(t, queue)))
		if code != 0 || !slices.Contains(out.seen, 3) || slices.Max(out.seen) != slices.Min(out.seen) {
			t.Errorf("%q: exit code %d, %s: saw %d dead letters", args, code, errs, out.seen)
		}
	}
}

// depthReader counts the messages of a queue before it takes a text.
type depthReader struct {
	t     *testing.T
	queue string
	seen  []int
}

func (r *depthReader) Write(p []byte) (int, error) {
	q := deadletter.Queue{Name: r.queue, Dial: func(context.Context) (*amqp.Connection, error) {
		return amqp.Dial(brokerURL(r.t))
	}}
	n, err := q.Depth(r.t.Context())
	r.seen = append(r.seen, n)
	return len(p), err
}

// TestListReadsTheQueueOnlyIfAsked: a list is of the store's records, and says that the queue holds more messages than
// there are records. With --read it is of the queue.
func TestListReadsTheQueueOnlyIfAsked(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	store, dead := storeOf(t, storeURL(t), queue), queue+".dlq"
	for i := range 6 {
		a := counter.Attempt{Message: counter.Message{VHost: "/", Queue: queue, ID: fmt.Sprint("order-", i)},
			Token: fmt.Sprint(i), Consumer: "test"}
		_, err := store.Fail(t.Context(), a, counter.Failure{Cause: counter.CauseFailed, Reason: "no stock"})
		need(t, err)
	}
	withChannel(t, func(ch *amqp.Channel) error {
		need(t, ch.Confirm(false))
		var last *amqp.DeferredConfirmation
		for i := range 7 {
			died := amqp.Table{"queue": queue, "exchange": "", "reason": "rejected", "count": int64(1), "time": time.Now(),
				"routing-keys": []any{queue}}
			id := fmt.Sprint("order-", i)
			if i == 6 {
				id, died["reason"] = "stray", "expired"
			}
			m := amqp.Publishing{MessageId: id, Body: []byte("b"), Headers: amqp.Table{"x-death": []any{died}}}
			var err error
			if last, err = ch.PublishWithDeferredConfirm("", dead, true, false, m); err != nil {
				return err
			}
		}
		last.Wait()
		return nil
	})
	stray, returns := reason.Key("expired", "expired"), returnsIn(t, dead)
	for _, tt := range []struct {
		args  []string
		code  int
		out   string
		reads bool
	}{
		{nil, 0, "order-5", false},
		{[]string{"--groups"}, 0, "  6 ", false},
		{[]string{"--error", "no such error"}, cli.ExitNothing, "", false},
		{[]string{"--error", "NO STOCK"}, 0, "order-5", false},
		{[]string{"--group", reason.Key("failed", "no stock")}, 0, "order-5", false},
		{[]string{"order-2", "order-3"}, 0, "order-2 ", false},
		{[]string{"order-2", "stray"}, cli.ExitNothing, "order-2 ", false},
		{[]string{"stray"}, cli.ExitNothing, "", false},
		{[]string{"--kind", "expired"}, cli.ExitNothing, "", false},
		{[]string{"--read", "stray"}, 0, "stray ", true},
		{[]string{"--read", "--group", stray}, 0, "stray ", true},
		{[]string{"--read", "--kind", "expired"}, 0, "stray ", true},
		{[]string{"--read", "--groups"}, 0, "  6 ", true},
	} {
		args := append([]string{"dead", "list", queue}, tt.args...)
		code, out, errs := inProcess(t, queue, args...)
		if code != tt.code || !strings.Contains(out, tt.out) {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, errs)
		}
		more := fmt.Sprintf("queue %s holds 7 messages, and the store has records of 6 dead letters of queue %s; --read",
			dead, queue)
		if strings.Contains(errs, more) == tt.reads {
			t.Errorf("%q: %s", args, errs)
		}
		if tt.reads { // the queue may then have another head
			continue
		}
		now := returnsIn(t, dead) // which returns the message too
		if now > returns+1 {
			t.Errorf("%q has read the queue", args)
		}
		returns = now
	}
}

// TestHeldDeadLettersAreNotMissed: while another consumer holds every dead letter, no command says that there is none.
func TestHeldDeadLettersAreNotMissed(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	buryInto(t, queue, broker.DeadLetterLimit, false)
	to := filepath.Join(t.TempDir(), "kept")
	withChannel(t, func(ch *amqp.Channel) error {
		held, err := ch.Consume(queue+".dlq", "", false, false, false, false, nil)
		if err != nil {
			return err
		}
		for range 3 {
			<-held
		}
		for _, args := range [][]string{
			{"dead", "list", queue, "--read"},
			{"dead", "replay", queue, "--error", "exit status", "--dry-run"},
			{"dead", "replay", queue, "--error", "exit status", "--yes"},
			{"dead", "drop", queue, "--all", "--yes", "--to", to},
		} {
			if code, out, errs := inProcess(t, queue, args...); code != cli.ExitMisuse || strings.Contains(errs, "empty") {
				t.Errorf("%q: exit code %d: %s%s", args, code, out, errs)
			}
		}
		return nil
	})
}

// TestStatusAsksASilentStoreOnce: status finds that the store does not reply, asks it for nothing, and has the broker's
// figures.
func TestStatusAsksASilentStoreOnce(t *testing.T) {
	t.Parallel()
	queue := declaredQueue(t)
	silent, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	var mu sync.Mutex
	var asked bytes.Buffer
	var reading sync.WaitGroup
	reading.Go(func() {
		for conn, err := silent.Accept(); err == nil; conn, err = silent.Accept() {
			reading.Go(func() {
				defer conn.Close()
				for buffer := make([]byte, 4096); ; {
					n, err := conn.Read(buffer)
					mu.Lock()
					asked.Write(buffer[:n])
					mu.Unlock()
					if err != nil {
						return
					}
				}
			})
		}
	})
	for _, args := range [][]string{{"status", queue}, {"status"}} {
		code, out, errs := called(t, append(args, "--amqp-url", brokerURL(t), "--management-url", managementURL(t),
			"--prefix", queue, "--store-url", "redis://"+silent.Addr().String()+"?read_timeout=200ms")...)
		if code != cli.ExitUnreachable || !strings.Contains(out+errs, "\n0 messages ready") == (len(args) == 2) ||
			!strings.Contains(errs, "store slow") {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, errs)
		}
	}
	need(t, silent.Close())
	reading.Wait()
	if text := strings.ToLower(asked.String()); !strings.Contains(text, "hello") || strings.Contains(text, queue) {
		t.Errorf("a store that does not reply was asked for data: %q", text)
	}
}

// oneEvent is a browser that leaves after the first event of a stream.
type oneEvent struct {
	*httptest.ResponseRecorder
	leave func()
}

func (w oneEvent) Flush() { w.leave() }

// readingPages are the requests to a console that may change nothing, and that of its forms that read.
func readingPages(t *testing.T, queue string) (reads []func()) {
	b, err := connect.NewBroker(brokerURL(t), "test", "--amqp-url")
	need(t, err)
	store := storeOf(t, storeURL(t), queue)
	c, err := console.New(console.Options{Store: store, Dial: b.Dial, VHost: b.VHost, Management: managementURL(t)})
	need(t, err)
	t.Cleanup(func() { _ = c.Close() })
	of := "queue=" + url.QueryEscape(queue)
	for _, to := range []string{
		"GET /queue?" + of, "GET /dead?" + of, "GET /replay?" + of, "GET /drop?" + of,
		"GET /message?id=a&queue=" + url.QueryEscape(queue), "POST /message?id=a&queue=" + url.QueryEscape(queue),
		"GET /live?screen=queue&" + of, "GET /live?screen=dead&" + of, "GET /live?screen=replay&" + of,
	} {
		reads = append(reads, func() {
			method, path, _ := strings.Cut(to, " ")
			ctx, leave := context.WithCancel(t.Context())
			defer leave()
			r := httptest.NewRequestWithContext(ctx, method, "http://localhost"+path, nil)
			r.RemoteAddr = "127.0.0.1:1"
			r.Header.Set("Accept", "text/event-stream") // of the live stream
			w := httptest.NewRecorder()
			switch c.ServeHTTP(oneEvent{w, leave}, r); {
			case w.Code != http.StatusOK && w.Code != http.StatusConflict && w.Code != http.StatusForbidden:
				t.Fatalf("%s: %d: %s", to, w.Code, w.Body)
			case strings.HasPrefix(path, "/live") && !strings.Contains(w.Body.String(), `data: {"title":"`):
				t.Fatalf("%s: no event: %s", to, w.Body)
			}
		})
	}
	return reads
}

// undecodableHeaders are nested deeper than amqp091-go reads, although it writes them.
func undecodableHeaders() amqp.Table {
	deep := amqp.Table{}
	for range 40 {
		deep = amqp.Table{"t": deep}
	}
	return deep
}

// publishUndecodable puts a message into a queue that no reader can decode.
func publishUndecodable(t *testing.T, queue, id string) {
	t.Helper()
	withChannel(t, func(ch *amqp.Channel) error {
		if err := ch.Confirm(false); err != nil {
			return err
		}
		confirm, err := ch.PublishWithDeferredConfirm("", queue, true, false, amqp.Publishing{MessageId: id,
			Headers: undecodableHeaders()})
		if err == nil {
			confirm.Wait()
		}
		return err
	})
}

// TestUndecodableDeadLetterIsTakenOut: one message that the client cannot decode does not hide the others. Each command
// names the command that takes it out. That one keeps the messages before it, and those behind it, in their order,
// although they were read before.
func TestUndecodableDeadLetterIsTakenOut(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	buryInto(t, queue, broker.DeadLetterLimit, false)
	publishUndecodable(t, queue+".dlq", "bad")
	publishLines(t, queue, `{"id":"d","body":"b"}`, "--ndjson")
	mustOutput(t, strikesOn(t, queue, "consume", queue, "--max-retries", "0", "--exit-when-idle", "300ms", "--", "false"))

	to := filepath.Join(t.TempDir(), "bad")
	wayOut := "strikes dead drop --undecodable --to FILE " + queue
	for _, tt := range []struct {
		args []string
		code int
		out  string
	}{
		{[]string{"list", queue, "--read"}, cli.ExitUnreachable, ""},
		{[]string{"show", queue, "d", "--json"}, cli.ExitUnreachable, ""},
		{[]string{"replay", queue, "d", "--yes", "--why", "w"}, cli.ExitUnreachable, ""},
		{[]string{"drop", queue, "d", "--to", to, "--yes", "--why", "w"}, cli.ExitUnreachable, ""},
	} {
		code, out, errs := inProcess(t, queue, append([]string{"dead"}, tt.args...)...)
		if code != tt.code || !strings.Contains(out, tt.out) {
			t.Errorf("%q: exit code %d: %s%s", tt.args, code, out, errs)
		}
		for _, want := range []string{" of queue " + queue + ".dlq", "cannot be decoded", wayOut} {
			if !strings.Contains(errs, want) {
				t.Errorf("%q does not say %q: %s", tt.args, want, errs)
			}
		}
	}

	drop := []string{"dead", "drop", queue, "--undecodable", "--to", to, "--yes", "--why", "w"}
	if code, _, errs := inProcess(t, queue, drop...); code != 0 || !strings.Contains(errs, "message 4 of queue") {
		t.Errorf("exit code %d: %s", code, errs)
	}
	kept, err := os.ReadFile(to)
	if err != nil || strings.Count(string(kept), "\n") != 1 || !strings.Contains(string(kept), `"message_id":"bad"`) {
		t.Errorf("%v: %s", err, kept)
	}
	if code, _, errs := inProcess(t, queue, drop...); code != cli.ExitNothing {
		t.Errorf("once more: exit code %d: %s", code, errs)
	}
	withChannel(t, func(ch *amqp.Channel) error {
		for _, id := range []string{"a", "b", "c", "d"} {
			d, ok, err := ch.Get(queue+".dlq", true)
			if err != nil {
				return err
			}
			if !ok || d.MessageId != id {
				t.Errorf("%q follows, want %q", d.MessageId, id)
			}
		}
		return nil
	})
}

// TestStatusNamesTheWayOut of a message that ended a session: the command that it names takes the message out of the
// queue.
func TestStatusNamesTheWayOut(t *testing.T) {
	queue := newQueue(t)
	withChannel(t, func(ch *amqp.Channel) error {
		_, err := ch.QueueDeclare(queue, true, false, false, false, nil)
		return err
	})
	publishUndecodable(t, queue, "bad")
	store := storeOf(t, storeURL(t), queue)
	if code, out, errs := inProcess(t, queue, "status", queue); code != 0 || strings.Contains(out, "undecoded") {
		t.Errorf("before: exit code %d: %s%s", code, out, errs)
	}
	if err := store.NoteUndecodable(t.Context(), "/", queue,
		"its headers\x1b; it is at the head of the queue"); err != nil {
		t.Fatal(err)
	}
	wayOut := "dead drop --dead-letter-queue " + queue + " --undecodable --to FILE " + queue + "\n"
	code, out, errs := inProcess(t, queue, "status", queue)
	for _, want := range []string{
		`undecoded  a message ends every session that receives it: its headers\x1b; it is at the head of the queue` + "\n",
		"a quorum queue dead-letters it at its delivery limit; on a queue without one stop the consumers, and\n",
		"           strikes " + wayOut,
	} {
		if code != 0 || !strings.Contains(out, want) {
			t.Errorf("exit code %d: no %q in %s%s", code, want, out, errs)
		}
	}
	if _, out, errs := inProcess(t, queue, "status", "--json", queue); !strings.Contains(out,
		`"undecodable":"its headers\u001b; it is at the head of the queue"`) {
		t.Errorf("in JSON: %s%s", out, errs)
	}
	to := filepath.Join(t.TempDir(), "bad")
	drop := append(strings.Fields(strings.Replace(wayOut, "FILE", to, 1)), "--yes", "--why", "w")
	if code, _, errs := inProcess(t, queue, drop...); code != 0 || !strings.Contains(errs, "1 dropped, in "+to) {
		t.Errorf("exit code %d: %s", code, errs)
	}
	if kept, err := os.ReadFile(to); err != nil || !strings.Contains(string(kept), `"message_id":"bad"`) {
		t.Errorf("%v: %s", err, kept)
	}
}

// TestForceSparesALowLimit: even --force does not read a dead-letter queue with a low delivery limit. The broker would
// delete a message that is returned once too often.
func TestForceSparesALowLimit(t *testing.T) {
	t.Parallel()
	queue := newQueue(t)
	buryInto(t, queue, 1000, false)
	for _, args := range [][]string{
		{"show", queue, "a", "--json"}, {"list", queue, "--no-store"}, {"replay", queue, "a", "--yes"},
		{"list", queue, "--read"},
	} {
		code, out, errs := inProcess(t, queue, slices.Concat([]string{"dead"}, args, []string{"--force"})...)
		if code != cli.ExitMisuse || !strings.Contains(errs, "it is a quorum queue with the delivery limit 1000") ||
			!strings.Contains(errs, "set a limit of 1000000 or more (strikes doctor)") || strings.Contains(errs, "--force") ||
			strings.Contains(errs, "interrupt") || strings.Count(errs, "replay or drop") > 1 {
			t.Errorf("%q: exit code %d: %s%s", args, code, out, errs)
		}
	}
	if returns := returnsIn(t, queue+".dlq"); returns > 0 {
		t.Errorf("a dead letter was returned %d times", returns)
	}
}
