package integration

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/uuid"
	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/publisher"
)

// pubPatience is far more than any step takes on a busy machine.
const pubPatience = 2 * time.Minute

func pubNew(t testing.TB, url string, opts *publisher.Options) *publisher.Publisher {
	t.Helper()
	p, err := publisher.New(func(context.Context) (*amqp.Connection, error) { return amqp.Dial(url) }, opts)
	need(t, err)
	t.Cleanup(func() { _ = p.Close() })
	return p
}

func pubContext(t testing.TB) context.Context {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), pubPatience)
	t.Cleanup(cancel)
	return ctx
}

func pubChannel(t testing.TB) *amqp.Channel {
	t.Helper()
	conn, err := amqp.Dial(brokerURL(t))
	need(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	ch, err := conn.Channel()
	need(t, err)
	return ch
}

func pubQueue(t testing.TB, args amqp.Table) (ch *amqp.Channel, queue string) {
	t.Helper()
	ch = pubChannel(t)
	queue = "pub-" + uuid.NewString()
	need(t, errOf(ch.QueueDeclare(queue, true, false, false, false, args)))
	t.Cleanup(func() { _, _ = ch.QueueDelete(queue, false, false, false) })
	return ch, queue
}

// pubIDs empties the queue and says how often it held each id.
func pubIDs(t testing.TB, queue string) map[string]int {
	t.Helper()
	held := map[string]int{}
	for _, id := range ids(getAll(t, queue)) {
		held[id]++
	}
	return held
}

func pubError(t testing.TB, err, want error) *publisher.Error {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("got error %v, want %v", err, want)
	}
	var e *publisher.Error
	if !errors.As(err, &e) {
		t.Fatalf("got a %T, want a *publisher.Error: %v", err, err)
	}
	return e
}

func TestPublishStampsAndPersists(t *testing.T) {
	t.Parallel()
	for _, kind := range []string{"classic", "quorum"} {
		t.Run(kind, func(t *testing.T) {
			ch, queue := pubQueue(t, amqp.Table{"x-queue-type": kind})
			p := pubNew(t, brokerURL(t), nil)

			id, err := p.Publish(pubContext(t), "", queue, amqp.Publishing{Body: []byte("first")})
			need(t, err)
			if u, err := uuid.Parse(id); err != nil || u.Version() != 7 {
				t.Errorf("id %q is no UUIDv7", id)
			}
			if d := getOne(t, ch, queue); d.MessageId != id || d.DeliveryMode != amqp.Persistent || string(d.Body) != "first" {
				t.Errorf("id %q, mode %d, body %q; want %q, persistent, first", d.MessageId, d.DeliveryMode, d.Body, id)
			}
		})
	}
}

func TestPublishKeepsWhatItIsGiven(t *testing.T) {
	t.Parallel()
	ch, queue := pubQueue(t, nil)
	p := pubNew(t, brokerURL(t), nil)
	given := amqp.Publishing{
		MessageId: "order/17 ü", DeliveryMode: amqp.Transient, Priority: 3, Timestamp: time.Unix(1700000000, 0),
		ContentType: "text/plain", CorrelationId: "c", Headers: amqp.Table{"a": int32(1)}, Body: []byte("x"),
	}
	id, err := p.Publish(pubContext(t), "", queue, given)
	if err != nil || id != given.MessageId {
		t.Fatalf("got %q, %v", id, err)
	}
	d := getOne(t, ch, queue)
	got := amqp.Publishing{
		MessageId: d.MessageId, DeliveryMode: d.DeliveryMode, Priority: d.Priority, Timestamp: d.Timestamp,
		ContentType: d.ContentType, CorrelationId: d.CorrelationId, Headers: d.Headers, Body: d.Body,
	}
	if diff := cmp.Diff(given, got); diff != "" {
		t.Errorf("message changed on its way (-published +consumed):\n%s", diff)
	}
}

// TestPublishRefused: the broker refuses a message, and takes the next one on a queue that has room.
func TestPublishRefused(t *testing.T) {
	t.Parallel()
	for name, tt := range map[string]struct {
		exchange, key string // no key: a queue that is full
		code          int
		reason        string
		want          error
	}{
		"unroutable":       {"", "pub-nowhere", amqp.NoRoute, "NO_ROUTE", publisher.ErrUnroutable},
		"unknown exchange": {"pub-no-such", "k", amqp.NotFound, "'pub-no-such'", publisher.ErrRefused},
		"full":             {"", "", 0, "", publisher.ErrNacked},
	} {
		t.Run(name, func(t *testing.T) {
			_, queue := pubQueue(t, nil)
			var log lockedBuffer
			p := pubNew(t, brokerURL(t), &publisher.Options{Logger: slog.New(slog.NewTextHandler(&log,
				&slog.HandlerOptions{Level: slog.LevelWarn}))})
			ctx := pubContext(t)
			full := ""
			if tt.key == "" {
				_, full = pubQueue(t, amqp.Table{"x-max-length": 1, "x-overflow": "reject-publish"})
				need(t, errOf(p.Publish(ctx, "", full, amqp.Publishing{MessageId: "fits"})))
				tt.key = full
			}
			id, err := p.Publish(ctx, tt.exchange, tt.key, amqp.Publishing{MessageId: "m1"})
			e := pubError(t, err, tt.want)
			if id != "m1" || e.ID != "m1" || e.Undecided || e.Exchange != tt.exchange || e.Key != tt.key ||
				e.Code != tt.code || !strings.Contains(e.Reason, tt.reason) {
				t.Errorf("id %q, error %+v; want code %d and reason %q", id, *e, tt.code, tt.reason)
			}
			if full != "" {
				if diff := cmp.Diff(map[string]int{"fits": 1}, pubIDs(t, full)); diff != "" {
					t.Error(diff)
				}
			}
			if _, err := p.Publish(ctx, "", queue, amqp.Publishing{MessageId: "m1"}); err != nil {
				t.Errorf("the next message: %v", err)
			}
			if said := log.String(); said != "" {
				t.Errorf("the error is logged, too: %s", said)
			}
		})
	}
}

// Two messages alike in exchange, key and id, of which a headers exchange
// routes one: each call must get the fate of its own.
func TestPublishTellsMessagesOfOneIDApart(t *testing.T) {
	t.Parallel()
	ch, queue := pubQueue(t, nil)
	exchange := "pub-" + uuid.NewString()
	need(t, ch.ExchangeDeclare(exchange, amqp.ExchangeHeaders, false, false, false, false, nil))
	t.Cleanup(func() { _ = ch.ExchangeDelete(exchange, false, false) })
	need(t, ch.QueueBind(queue, "", exchange, false, amqp.Table{"x-match": "all", "take": true}))
	p := pubNew(t, brokerURL(t), nil)
	ctx := pubContext(t)
	var calls sync.WaitGroup
	for i := range 200 {
		take := i%2 == 0
		calls.Go(func() {
			msg := amqp.Publishing{MessageId: "same", Headers: amqp.Table{"take": take}}
			_, err := p.Publish(ctx, exchange, "", msg)
			if take && err != nil || !take && !errors.Is(err, publisher.ErrUnroutable) {
				t.Errorf("routable %v: %v", take, err)
			}
		})
	}
	calls.Wait()
	if got := pubIDs(t, queue); got["same"] != 100 {
		t.Errorf("the queue has %v, want 100 of one id", got)
	}
}

// A message that closes the channel takes others with it: they must be told
// that they are undecided, or not published, and be right.
func TestPublishBesideAnUnknownExchange(t *testing.T) {
	t.Parallel()
	_, queue := pubQueue(t, nil)
	p := pubNew(t, brokerURL(t), nil)
	ctx := pubContext(t)
	var (
		calls            sync.WaitGroup
		mu               sync.Mutex
		confirmed, never []string
	)
	publish := func(id string) {
		_, err := p.Publish(ctx, "", queue, amqp.Publishing{MessageId: id})
		mu.Lock()
		defer mu.Unlock()
		if err == nil {
			confirmed = append(confirmed, id)
		} else if e := pubError(t, err, publisher.ErrConnectionLost); !e.Undecided {
			never = append(never, id)
		}
	}
	for g := range 16 {
		calls.Go(func() {
			for i := range 100 {
				publish(fmt.Sprint(g, "/", i))
			}
		})
	}
	for range 20 {
		_, err := p.Publish(ctx, "pub-no-such", "k", amqp.Publishing{})
		pubError(t, err, publisher.ErrRefused)
	}
	calls.Wait()
	got := pubIDs(t, queue)
	for _, id := range confirmed {
		if got[id] != 1 {
			t.Errorf("confirmed message %q is in the queue %d times", id, got[id])
		}
	}
	for _, id := range never {
		if got[id] != 0 {
			t.Errorf("message %q is in the queue, but the error said that it is not", id)
		}
	}
	t.Logf("%d confirmed, %d not published, of 1600", len(confirmed), len(never))
}

func TestPublishInvalidHurtsNobody(t *testing.T) {
	t.Parallel()
	_, queue := pubQueue(t, nil)
	url := brokerURL(t)
	dials := 0
	p, err := publisher.New(func(context.Context) (*amqp.Connection, error) { dials++; return amqp.Dial(url) }, nil)
	need(t, err)
	t.Cleanup(func() { _ = p.Close() })
	ctx := pubContext(t)
	for name, msg := range map[string]amqp.Publishing{
		"long id":        {MessageId: strings.Repeat("i", 256)},
		"header type":    {Headers: amqp.Table{"h": struct{}{}}},
		"header too big": {Headers: amqp.Table{"h": strings.Repeat("a", 131072)}},
	} {
		need(t, errOf(p.Publish(ctx, "", queue, amqp.Publishing{})))
		_, err := p.Publish(ctx, "", queue, msg)
		if e := pubError(t, err, publisher.ErrInvalid); e.Undecided {
			t.Errorf("%s: undecided: %v", name, err)
		}
	}
	for n, want := range map[int]error{pubRoom: nil, pubRoom + 1: publisher.ErrInvalid} {
		full := amqp.Publishing{MessageId: "m", Headers: amqp.Table{"h": strings.Repeat("a", n)}}
		if _, err := p.Publish(ctx, "", queue, full); !errors.Is(err, want) {
			t.Errorf("a header of %d bytes: %v, want %v", n, err, want)
		}
	}
	if dials != 1 {
		t.Errorf("dialled %d times, want once", dials)
	}
}

// pubRoom is the longest header "h" of a message "m" beside which a frame has room for the headers that the broker
// adds.
const pubRoom = 131064 - (14 + 1 + 2) - (4 + 2 + 5) - 8192

// TestPublishLargeHeaderComesBack: it can still be returned, dead-lettered and received.
func TestPublishLargeHeaderComesBack(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		large := amqp.Publishing{MessageId: "m", Headers: amqp.Table{"h": strings.Repeat("a", pubRoom)}}
		need(t, errOf(pubNew(t, brokerURL(t), nil).Publish(pubContext(t), "", queue, large)))
		ch := pubChannel(t)
		deliveries, err := ch.ConsumeWithContext(pubContext(t), queue, "", false, false, false, false, nil)
		need(t, err)
		for i := range 4 {
			d, ok := <-deliveries
			if !ok {
				t.Fatalf("delivery %d ended the connection", i+1)
			}
			need(t, d.Nack(false, i < 3))
		}
		if d := getOne(t, ch, queue+".dlq"); len(d.Headers["h"].(string)) != pubRoom || d.Headers["x-death"] == nil {
			t.Errorf("dead-lettered with %d headers", len(d.Headers))
		}
	})
}

// 4.x takes no more than max_message_size, 16 MiB by default.
func TestPublishLargeBody(t *testing.T) {
	t.Parallel()
	ch, queue := pubQueue(t, nil)
	p := pubNew(t, brokerURL(t), nil)
	body := slices.Repeat([]byte("strikes!"), 17<<20/8)
	id, err := p.Publish(pubContext(t), "", queue, amqp.Publishing{Body: body})
	if err == nil {
		if d := getOne(t, ch, queue); d.MessageId != id || len(d.Body) != len(body) {
			t.Errorf("got %d bytes of %q, want %d of %q", len(d.Body), d.MessageId, len(body), id)
		}
		return
	}
	if e := pubError(t, err, publisher.ErrRefused); e.Code != amqp.PreconditionFailed || e.Undecided {
		t.Errorf("want 406, decided; got %v", err)
	}
	if _, err := p.Publish(pubContext(t), "", queue, amqp.Publishing{Body: body[:15<<20]}); err != nil {
		t.Errorf("15 MiB: %v", err)
	}
}

func TestPublishAll(t *testing.T) {
	t.Parallel()
	ch, queue := pubQueue(t, nil)
	p := pubNew(t, brokerURL(t), &publisher.Options{Window: 50})
	msgs := make([]publisher.Message, 500)
	for i := range msgs {
		msgs[i] = publisher.Message{Key: queue, Publishing: amqp.Publishing{Body: fmt.Append(nil, i)}}
	}
	need(t, p.PublishAll(pubContext(t), msgs))
	for i := range msgs {
		if d := getOne(t, ch, queue); string(d.Body) != fmt.Sprint(i) || d.MessageId != msgs[i].MessageId {
			t.Fatalf("place %d: message %q with id %q, want id %q", i, d.Body, d.MessageId, msgs[i].MessageId)
		}
	}
}

func TestPublishAllSaysWhichFailed(t *testing.T) {
	t.Parallel()
	_, queue := pubQueue(t, nil)
	p := pubNew(t, brokerURL(t), nil)
	msgs := []publisher.Message{
		{Key: queue}, {Key: "pub-nowhere"}, {Key: queue, Publishing: amqp.Publishing{DeliveryMode: 9}}, {Key: queue},
	}
	var batch *publisher.BatchError
	if err := p.PublishAll(pubContext(t), msgs); !errors.As(err, &batch) || !errors.Is(err, publisher.ErrUnroutable) {
		t.Fatalf("got %v", err)
	}
	for i, want := range []error{nil, publisher.ErrUnroutable, publisher.ErrInvalid, nil} {
		if !errors.Is(batch.Errs[i], want) {
			t.Errorf("message %d: %v, want %v", i, batch.Errs[i], want)
		}
	}
	want := map[string]int{msgs[0].MessageId: 1, msgs[3].MessageId: 1}
	if diff := cmp.Diff(want, pubIDs(t, queue)); diff != "" {
		t.Error(diff)
	}
}
