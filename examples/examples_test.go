package examples

import (
	"bufio"
	"bytes"
	"context"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/uuid"
	"github.com/jackc/pgx/v5"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

var need = servertest.Need

func TestMain(m *testing.M) { os.Exit(servertest.Run(m)) }

// A world is where one example runs: its binary, and a virtual host of the broker for it alone.
type world struct {
	bin   string
	env   []string
	conn  *amqp.Connection
	ch    *amqp.Channel
	store string // its URL
}

func newWorld(t *testing.T, example string) world {
	t.Helper()
	broker := servertest.VirtualHost(t)
	conn, err := amqp.Dial(broker)
	need(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	need(t, err)
	need(t, ch.Confirm(false))
	store := servertest.StoreURL(t)
	env := append(os.Environ(), "AMQP_URL="+broker, "REDIS_URL="+store)
	return world{bin: servertest.Program(t, "examples/"+example), env: env, conn: conn, ch: ch, store: store}
}

// publish sends a message to a queue as soon as the example has declared it.
func (w world) publish(t *testing.T, queue, id, body string) {
	t.Helper()
	msg := amqp.Publishing{MessageId: id, Body: []byte(body)}
	ctx, cancel := context.WithTimeout(t.Context(), 30*time.Second)
	defer cancel()
	confirm, err := w.ch.PublishWithDeferredConfirmWithContext(ctx, "", queue, true, false, msg)
	need(t, err)
	if acked, err := confirm.WaitContext(ctx); err != nil || !acked {
		t.Fatalf("%s was not confirmed: %v, %v", id, acked, err)
	}
}

// A program is a running example.
type program struct {
	cmd    *exec.Cmd
	lines  *bufio.Scanner
	stderr *bytes.Buffer
}

func (w world) start(t *testing.T, extra ...string) *program {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	t.Cleanup(cancel)
	p := &program{cmd: exec.CommandContext(ctx, w.bin), stderr: new(bytes.Buffer)}
	p.cmd.Env, p.cmd.Stderr = append(w.env, extra...), p.stderr
	out, err := p.cmd.StdoutPipe()
	need(t, err)
	need(t, p.cmd.Start())
	p.lines = bufio.NewScanner(out)
	if line := p.next(t, 1)[0]; !strings.HasPrefix(line, "waiting for messages in the queue ") {
		t.Errorf("it first says %q", line)
	}
	return p
}

// next reads n lines that the program prints.
func (p *program) next(t *testing.T, n int) (lines []string) {
	t.Helper()
	for len(lines) < n && p.lines.Scan() {
		lines = append(lines, p.lines.Text())
	}
	if len(lines) < n {
		t.Fatalf("it printed %q, want %d lines\n%s", lines, n, p.stderr)
	}
	return lines
}

// stop ends the program as a service manager does.
func (p *program) stop(t *testing.T) {
	t.Helper()
	need(t, p.cmd.Process.Signal(syscall.SIGTERM))
	p.wait(t)
}

func (p *program) wait(t *testing.T) {
	t.Helper()
	if err := p.cmd.Wait(); err != nil {
		t.Errorf("it ended with %v\n%s", err, p.stderr)
	}
}

// awaitQueue waits until the example has declared a queue with so many messages.
func (w world) awaitQueue(t *testing.T, queue string, depth int) {
	t.Helper()
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		ch, err := w.conn.Channel()
		need(t, err)
		q, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		_ = ch.Close()
		if err == nil && q.Messages == depth {
			return
		}
	}
	t.Fatalf("queue %s does not hold %d messages", queue, depth)
}

// awaitConsumers waits until n processes consume the queue.
func (w world) awaitConsumers(t *testing.T, queue string, n int) {
	t.Helper()
	counts, err := counter.Dial(w.store, nil)
	need(t, err)
	defer counts.Close()
	proctest.Eventually(t, time.Minute, strconv.Itoa(n)+" consumers", func() bool {
		now, err := counts.Admin().State(t.Context(), w.conn.Config.Vhost, queue)
		return err == nil && len(now.Consumers) == n
	})
}

func TestPartitions(t *testing.T) {
	w := newWorld(t, "partitions")
	need(t, topology.Declare(t.Context(), w.conn, topology.Spec{Queue: "bookings", Partitions: 8}))
	all := []*program{w.start(t), w.start(t)}
	w.awaitConsumers(t, "bookings", 2)
	for i := range 60 {
		to, err := publisher.Partitions{Queue: "bookings", N: 8}.Message("customer-"+strconv.Itoa(i%6), amqp.Publishing{
			MessageId: uuid.NewString(), Body: []byte(strconv.Itoa(i / 6))})
		need(t, err)
		c, err := w.ch.PublishWithDeferredConfirm(to.Exchange, to.Key, true, false, to.Publishing)
		if err != nil || !c.Wait() {
			t.Fatalf("publishing: %v", err)
		}
	}
	type line struct {
		process         int
		customer, order string
	}
	lines := make(chan line, 200)
	var reading sync.WaitGroup
	for i, p := range all {
		reading.Go(func() {
			for p.lines.Scan() {
				customer, order, _ := strings.Cut(p.lines.Text(), " booked ")
				lines <- line{i, customer, order}
			}
		})
	}
	go func() {
		reading.Wait()
		close(lines)
	}()
	booked := map[string][]string{} // by customer
	last := map[line]string{}       // the last order of a customer that a process booked
	take := func(l line) {
		booked[l.customer] = append(booked[l.customer], l.order)
		key := line{process: l.process, customer: l.customer}
		if l.order <= last[key] {
			t.Errorf("process %d booked %s of %s after %s", l.process, l.order, l.customer, last[key])
		}
		last[key] = l.order
	}
	for range 60 {
		select {
		case l, more := <-lines:
			if !more {
				t.Fatalf("the processes ended; booked so far: %v", booked)
			}
			take(l)
		case <-time.After(time.Minute):
			t.Fatalf("no order was booked for a minute; booked so far: %v", booked)
		}
	}
	for _, p := range all {
		need(t, p.cmd.Process.Signal(syscall.SIGTERM))
	}
	for l := range lines {
		take(l)
	}
	for _, p := range all {
		p.wait(t)
	}
	want := strings.Fields("0 1 2 3 4 5 6 7 8 9")
	for customer, orders := range booked {
		if slices.Sort(orders); !slices.Equal(orders, want) {
			t.Errorf("%s: %q, want %q", customer, orders, want)
		}
	}
	if len(booked) != 6 {
		t.Errorf("%d customers, want 6", len(booked))
	}
}

// TestInvoices publishes two messages with one id for each order, as a producer does that gets no confirm. It also
// kills the program.
func TestInvoices(t *testing.T) {
	w := newWorld(t, "invoices")
	db, err := pgx.Connect(t.Context(), "postgres://postgres@"+servertest.PostgreSQL(t)+"/postgres?sslmode=disable")
	need(t, err)
	defer db.Close(t.Context())
	if _, err := db.Exec(t.Context(), "DROP TABLE IF EXISTS invoices, strikes_inbox"); err != nil {
		t.Fatal(err)
	}
	w.env = append(w.env, "DATABASE_URL="+db.Config().ConnString())
	for name, url := range map[string]string{"DATABASE_URL": "postgres://u:hush@127.0.0.1:1/d",
		"AMQP_URL": "amqp://u:hush@127.0.0.1:1/"} {
		cmd := exec.CommandContext(t.Context(), w.bin)
		cmd.Env = append(slices.Clone(w.env), name+"="+url)
		out, err := cmd.CombinedOutput()
		for _, want := range []string{name + ": ", "127.0.0.1:1"} {
			if err == nil || !strings.Contains(string(out), want) || strings.Contains(string(out), "hush") {
				t.Errorf("without a server at %s: %v\n%s", name, err, out)
			}
		}
	}
	p := w.start(t)
	w.awaitQueue(t, "orders", 0)
	for range 20 {
		id := uuid.NewString()
		for range 2 {
			w.publish(t, "orders", id, id)
		}
	}
	p.next(t, 7)
	need(t, p.cmd.Process.Kill())
	_ = p.cmd.Wait() // it was killed
	p = w.start(t)
	w.publish(t, "orders", uuid.NewString(), "for the second process") // the first may have handled all others
	var invoices, orders int
	for deadline := time.Now().Add(time.Minute); orders < 21; time.Sleep(50 * time.Millisecond) {
		err := db.QueryRow(t.Context(), "SELECT count(*), count(DISTINCT body) FROM invoices").Scan(&invoices, &orders)
		if err != nil || invoices != orders || time.Now().After(deadline) {
			t.Fatalf("%d invoices for %d orders, want 21 for 21; %v", invoices, orders, err)
		}
	}
	w.awaitQueue(t, "orders", 0)
	p.stop(t)
	err = db.QueryRow(t.Context(), "SELECT count(*) FROM invoices").Scan(&invoices)
	if invoices != 21 || err != nil {
		t.Errorf("%d invoices for 21 orders, %v", invoices, err)
	}
}

func TestService(t *testing.T) {
	w := newWorld(t, "service")
	free, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	at := free.Addr().String()
	_ = free.Close()
	p := w.start(t, "LISTEN="+at)
	for deadline := time.Now().Add(time.Minute); get(t, "http://"+at+"/ready") == nil; time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("it is not ready")
		}
	}
	w.publish(t, "orders", uuid.NewString(), "17")
	if got := p.next(t, 1)[0]; got != "booked 17" {
		t.Error(got)
	}
	for deadline := time.Now().Add(time.Minute); !bytes.Contains(get(t, "http://"+at+"/metrics"),
		[]byte(`strikes_outcomes_total{cause="",outcome="ack",queue="orders",vhost="`)); time.Sleep(50 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatalf("metrics: %s", get(t, "http://"+at+"/metrics"))
		}
	}
	p.stop(t)
}

// get returns the body of a page, nil unless its status is 200.
func get(t *testing.T, at string) []byte {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, at, nil)
	need(t, err)
	res, err := (&http.Transport{DisableKeepAlives: true}).RoundTrip(req)
	if err != nil {
		return nil
	}
	defer res.Body.Close()
	body, err := io.ReadAll(res.Body)
	if err != nil || res.StatusCode != http.StatusOK {
		return nil
	}
	return append(body, '\n')
}
