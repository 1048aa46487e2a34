package integration

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	amqp1 "github.com/Azure/go-amqp"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// badMessage is a message that no AMQP 0.9.1 consumer receives.
type badMessage struct {
	headers amqp.Table             // which amqp091-go writes and does not read
	spoil   func(m *amqp1.Message) // or: RabbitMQ takes it over AMQP 1.0 and cannot convert it to AMQP 0.9.1
	frame   int                    // the frame size that its consumer asks for
}

var badMessages = map[string]badMessage{
	"deep": {headers: nested(40)},
	"wide": {headers: amqp.Table{"a": make([]any, 9000)}},
	"long": {headers: amqp.Table{"a": strings.Repeat("x", 9000)}, frame: 8192},

	"a property of type uuid": {spoil: spoiledByUUID},
	"a long content type": {spoil: func(m *amqp1.Message) {
		m.Properties.ContentType = new("text/" + strings.Repeat("x", 300))
	}},
}

func spoiledByUUID(m *amqp1.Message) {
	m.ApplicationProperties = map[string]any{"trace": amqp1.UUID{0xca, 0xfe}, "tenant": "acme"}
}

func nested(levels int) amqp.Table {
	t := amqp.Table{}
	for range levels {
		t = amqp.Table{"t": t}
	}
	return t
}

// untilDone runs fleet consumers that prefetch ten messages and take a while for each, until done or the time is over.
func untilDone(t *testing.T, queue string, frame, fleet int, store consumer.Counter, done func(handled map[string]int,
	told int) bool) {
	t.Helper()
	ctx, stop := context.WithTimeout(t.Context(), 3*time.Minute)
	defer stop()
	var mu sync.Mutex
	handled, told := map[string]int{}, 0
	look := func() bool { mu.Lock(); defer mu.Unlock(); return done(handled, told) }
	var all sync.WaitGroup
	for range fleet {
		c := &consumer.Consumer{
			Queue: queue, Counter: store, Prefetch: 10, MaxRetries: 1, // which a delivery limit of 6 allows
			Handler: func(ctx context.Context, d amqp.Delivery) error {
				select {
				case <-time.After(50 * time.Millisecond):
				case <-ctx.Done():
					return ctx.Err()
				}
				mu.Lock()
				defer mu.Unlock()
				handled[d.MessageId]++
				return nil
			},
			Observer: observer(func(e consumer.Event) {
				mu.Lock()
				defer mu.Unlock()
				if e.Outcome == consumer.OutcomeUndecodable && e.Queue == queue {
					told++
				}
			}),
		}
		all.Go(func() {
			err := c.Run(ctx, consumer.Dialer(brokerURL(t), amqp.Config{FrameSize: frame}))
			if ctx.Err() != nil && errors.Is(err, consumer.ErrUncleanStop) { // the message ended the connection meanwhile
				return
			}
			if err != nil {
				t.Errorf("Run: %v", err)
				stop()
			}
		})
	}
	for !look() && ctx.Err() == nil {
		time.Sleep(20 * time.Millisecond)
	}
	stop()
	all.Wait()
	if !look() {
		t.Errorf("after three minutes: handled %v, told of it %d times", handled, told)
	}
}

func allHandled(handled map[string]int) bool {
	return handled["m1"] > 0 && handled["m2"] > 0 && handled["m3"] > 0 && handled["m4"] > 0
}

// TestUndecodableTakesNoNeighbour: on a quorum queue the broker dead-letters the message at its delivery limit, and
// nothing else.
func TestUndecodableTakesNoNeighbour(t *testing.T) {
	t.Parallel()
	for name, bad := range badMessages {
		for _, fleet := range []int{1, 3} {
			t.Run(fmt.Sprintf("%s, fleet of %d", name, fleet), func(t *testing.T) {
				queue, store := withBad(t, topology.Quorum, bad), counters(t)
				untilDone(t, queue, bad.frame, fleet, store, func(handled map[string]int, told int) bool {
					return allHandled(handled) && (told >= 7 || bad.spoil != nil && queueDepth(t, queue+".dlq") > 0)
				})
				eventually(t, "the source empty, one dead letter", func() bool {
					return queueDepth(t, queue) == 0 && queueDepth(t, queue+".dlq") == 1
				})
				noted := "its headers"
				if bad.spoil != nil {
					noted = "541"
				}
				state, err := store.Admin().State(t.Context(), "/", queue)
				if u := state.Undecodable; err != nil || !strings.Contains(u, noted) {
					t.Errorf("noted: %q, %v", u, err)
				}
			})
		}
	}
}

// TestUndecodableBlocksAClassicQueue until it is taken out, as the error says: through the management API, or over AMQP
// 1.0. It harms no message before or behind it.
func TestUndecodableBlocksAClassicQueue(t *testing.T) {
	t.Parallel()
	for name, bad := range badMessages {
		t.Run(name, func(t *testing.T) {
			queue := withBad(t, topology.Classic, bad)
			untilDone(t, queue, bad.frame, 1, counter.NewMemory(nil), func(handled map[string]int, told int) bool {
				return handled["m1"] > 0 && handled["m2"] > 0 && told >= 4
			})
			eventually(t, "three messages are left", func() bool { return queueDepth(t, queue) == 3 })
			dead := 0
			if bad.spoil != nil {
				takeOut(t, queue)
			} else {
				rejectHead(t, queue, "bad")
				dead = 1
			}
			untilDone(t, queue, bad.frame, 1, counter.NewMemory(nil), func(handled map[string]int, told int) bool {
				return handled["m3"] > 0 && handled["m4"] > 0 && told == 0
			})
			eventually(t, "the source empty, and the dead letter", func() bool {
				return queueDepth(t, queue) == 0 && queueDepth(t, queue+".dlq") == dead
			})
		})
	}
}

// rejectHead rejects a message as "Get messages" with "Reject requeue false" does in the management UI.
func rejectHead(t *testing.T, queue, id string) {
	t.Helper()
	api := managementURL(t) + "/api/queues/%2F/" + queue + "/get"
	body := `{"count":1,"ackmode":"reject_requeue_false","encoding":"auto","truncate":100}`
	request, err := http.NewRequestWithContext(t.Context(), http.MethodPost, api, strings.NewReader(body))
	need(t, err)
	request.Close = true
	answer, err := http.DefaultClient.Do(request)
	need(t, err)
	defer answer.Body.Close()
	text := new(strings.Builder)
	_, err = io.Copy(text, answer.Body)
	need(t, err)
	if answer.StatusCode != http.StatusOK || !strings.Contains(text.String(), `"message_id":"`+id+`"`) {
		t.Fatalf("the management API: %s: %.300s", answer.Status, text)
	}
}

// withBad declares a queue with a dead-letter queue, and publishes m1, m2, the bad message, m3 and m4. It skips brokers
// whose core does not speak AMQP 1.0, if the message needs that.
func withBad(t *testing.T, kind topology.Type, bad badMessage) (queue string) {
	t.Helper()
	if bad.spoil != nil && brokerVersion(t).Before(4, 0) {
		t.Skip("RabbitMQ before 4.0 converts to AMQP 0.9.1 when it takes a message")
	}
	queue = withMessages(t, kind, 6, "m1", "m2")
	if bad.spoil != nil {
		publishUnconverted(t, queue, bad.spoil)
	} else {
		publishBare(t, queue, amqp.Publishing{MessageId: "bad", DeliveryMode: amqp.Persistent, Headers: bad.headers})
	}
	publishIDs(t, dialer(t), queue, []string{"m3", "m4"})
	return queue
}

// publishUnconverted publishes the message "bad" over AMQP 1.0.
func publishUnconverted(t *testing.T, queue string, spoil func(*amqp1.Message)) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	conn, err := amqp1.Dial(ctx, brokerURL(t), nil)
	need(t, err)
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	need(t, err)
	sender, err := session.NewSender(ctx, "/queues/"+queue, nil)
	need(t, err)
	m := amqp1.NewMessage([]byte("the body of bad"))
	m.Header = &amqp1.MessageHeader{Durable: true}
	m.Properties = &amqp1.MessageProperties{MessageID: "bad"}
	spoil(m)
	need(t, sender.Send(ctx, m, nil))
}

// withMessages declares a queue with a dead-letter queue, and publishes messages. A quorum queue gets the delivery
// limit.
func withMessages(t *testing.T, kind topology.Type, limit int, ids ...string) (queue string) {
	t.Helper()
	queue = uniqueName(t, "unconverted")
	dead := queue + ".dlq"
	args := amqp.Table{"x-queue-type": string(kind), "x-dead-letter-exchange": "", "x-dead-letter-routing-key": dead}
	if kind == topology.Quorum {
		args["x-delivery-limit"] = limit
	}
	need(t, onChannel(dialer(t), func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, args); err != nil {
			return err
		}
		return errOf(ch.QueueDeclare(dead, true, false, false, false, amqp.Table{"x-queue-type": string(kind)}))
	}))
	deleteLater(t, queue, dead)
	publishIDs(t, dialer(t), queue, ids)
	return queue
}

// takeOut runs examples/takeout as docs/operations.md says.
func takeOut(t *testing.T, queue string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), servertest.Program(t, "examples/takeout"), brokerURL(t), queue)
	command.Stdin = strings.NewReader("y\n")
	out, err := command.CombinedOutput()
	if err != nil || !strings.Contains(string(out), `id:           "bad"`) || !strings.Contains(string(out), "Removed.") {
		t.Fatalf("takeout: %v\n%s", err, out)
	}
}

// TestUndecodableAMQP1DeadLetter holds that reading a dead-letter queue with such a message names it and the way out.
func TestUndecodableAMQP1DeadLetter(t *testing.T) {
	t.Parallel()
	if brokerVersion(t).Before(4, 0) {
		t.Skip("RabbitMQ before 4.0 converts to AMQP 0.9.1 when it takes a message")
	}
	queue := declared(t, topology.Quorum)
	publishUnconverted(t, queue+".dlq", spoiledByUUID)
	for _, err := range deadLetterQueue(t, queue).Browse(t.Context(), deadletter.Filter{}) {
		if !errors.Is(err, deadletter.ErrUndecodable) || !strings.Contains(err.Error(), queue+".dlq") ||
			!strings.Contains(err.Error(), "AMQP 1.0 receiver") {
			t.Errorf("browsing: %v", err)
		}
		_, err := deadLetterQueue(t, queue).TakeUndecodable(t.Context(), managementAPI(t), func(m []byte) error {
			return fmt.Errorf("kept %s", m)
		})
		var bad *deadletter.UndecodableError
		if !errors.As(err, &bad) || !bad.Unconverted || bad.Position != 1 || bad.AtLeast {
			t.Errorf("taking it out through the API: %v", err)
		}
		return
	}
	t.Error("the queue was empty")
}

// TestUndecodableInOtherLanguages holds that a consumer in Python or Node.js loses no neighbour of such a message
// either, and reports it. The programs read the queue and the URLs of the servers from the environment, and succeed.
func TestUndecodableInOtherLanguages(t *testing.T) {
	t.Parallel()
	for _, name := range []string{"pika.py", "aio_pika.py", "node.mjs"} {
		t.Run(name, func(t *testing.T) {
			queue := withBad(t, topology.Quorum, badMessage{spoil: spoiledByUUID})
			command := consumerIn(t, name)
			command.Env = append(os.Environ(), "QUEUE="+queue, "AMQP="+brokerURL(t), "REDIS="+redisURL(t),
				"PYTHONDONTWRITEBYTECODE=1", "PYTHONPATH=src")
			said := new(lockedBuffer)
			command.Stdout, command.Stderr = said, said
			need(t, command.Start())
			t.Cleanup(func() {
				_ = command.Process.Kill()
				_ = command.Wait()
				if t.Failed() {
					t.Logf("it said:\n%s", said)
				}
			})
			eventually(t, "the source empty, one dead letter", func() bool {
				return queueDepth(t, queue) == 0 && queueDepth(t, queue+".dlq") > 0
			})
			if dead := queueDepth(t, queue+".dlq"); dead != 1 {
				t.Errorf("%d dead letters, want 1", dead)
			}
			for _, id := range []string{"m1", "m2", "m3", "m4"} {
				if !strings.Contains(said.String(), id+"\n") {
					t.Errorf("%s was not handled", id)
				}
			}
			state, err := counterOn(t, patientURL(t), "").Admin().State(t.Context(), "/", queue)
			u := state.Undecodable
			if err != nil || !strings.Contains(u, "541") {
				t.Errorf("noted: %q, %v", u, err)
			}
		})
	}
}

// consumerIn returns the command of a consumer in another language.
func consumerIn(t *testing.T, name string) *exec.Cmd {
	t.Helper()
	program := read(t, "testdata/consumers/"+name)
	if name == "node.mjs" {
		node, err := exec.LookPath("node")
		servertest.Need(t, err)
		command := exec.CommandContext(t.Context(), node, "--input-type=module", "-e", program)
		command.Dir = filepath.Join("..", "clients", "node")
		if _, err := os.Stat(filepath.Join(command.Dir, "node_modules")); err != nil {
			t.Fatal("the packages of clients/node are not installed: make node")
		}
		return command
	}
	command := exec.CommandContext(t.Context(), cmp.Or(os.Getenv("PYTHON"), "/usr/bin/python3"), "-c", program)
	command.Dir = filepath.Join("..", "clients", "python")
	return command
}
