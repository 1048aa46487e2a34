package main

import (
	"context"
	"slices"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/consumer"
)

func TestIdle(t *testing.T) {
	tests := []struct {
		name string
		then func(i *idle, filled *atomic.Bool) // the event a second after the start
		want time.Duration                      // when it is idle
	}{
		{"nothing", func(*idle, *atomic.Bool) {}, 5 * time.Second},
		{"a delivery that is held", func(i *idle, _ *atomic.Bool) {
			i.receive(amqp.Delivery{})
			time.Sleep(20 * time.Second) // the store is slow, a lane is busy, the handler runs, or a retry waits
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeAck})
		}, 26 * time.Second},
		{"decisions before the last one of a delivery", func(i *idle, _ *atomic.Bool) {
			i.receive(amqp.Delivery{})
			for _, o := range []consumer.Outcome{consumer.OutcomeIsolate, consumer.OutcomeRetry, consumer.OutcomeHold,
				consumer.OutcomeNotCounted, consumer.OutcomeCrash} {
				i.Observe(context.Background(), consumer.Event{Outcome: o, Wait: time.Second})
			}
			time.Sleep(20 * time.Second)
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeDeadLetter})
		}, 26 * time.Second},
		{"one of two deliveries is settled", func(i *idle, _ *atomic.Bool) {
			i.receive(amqp.Delivery{})
			i.receive(amqp.Delivery{})
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeMove})
			time.Sleep(20 * time.Second)
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeLeave})
		}, 26 * time.Second},
		{"a message that cannot be decoded", func(i *idle, _ *atomic.Bool) {
			i.Observe(context.Background(), consumer.Event{Outcome: consumer.OutcomeUndecodable})
		}, 6 * time.Second},
		{"a session that begins late", func(i *idle, _ *atomic.Bool) {
			time.Sleep(3 * time.Second)
			i.consuming()
		}, 9 * time.Second},
		{"messages that no consumer gets", func(_ *idle, filled *atomic.Bool) {
			filled.Store(true)
			time.Sleep(13 * time.Second)
			filled.Store(false)
		}, 15 * time.Second},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				i, began := &idle{patience: 5 * time.Second}, time.Now()
				var filled atomic.Bool
				go func() {
					time.Sleep(time.Second)
					tt.then(i, &filled)
				}()
				if !i.wait(t.Context(), func(context.Context) bool { return !filled.Load() }) {
					t.Fatal("never idle")
				}
				synctest.Wait()
				if got := time.Since(began); got < tt.want || got > tt.want+5*time.Second {
					t.Errorf("idle after %v, want %v and at most the patience more", got, tt.want)
				}
			})
		})
	}
}

// TestIdleLooksSeldom: a short patience asks neither the broker nor the clock without a pause.
func TestIdleLooksSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		began, asked := time.Now(), 0
		(&idle{patience: 1}).wait(t.Context(), func(context.Context) bool {
			asked++
			return time.Since(began) > 50*time.Microsecond
		})
		if asked > 2 {
			t.Errorf("asked %d times in %v", asked, time.Since(began))
		}
	})
}

func TestIdleStops(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if (&idle{patience: time.Hour}).wait(ctx, func(context.Context) bool { return true }) {
		t.Error("idle, though it was stopped")
	}
}

// TestOwnConsumerIsCounted has a broker answer that a queue has no message: that is believed once it counts a consumer.
func TestOwnConsumerIsCounted(t *testing.T) {
	b, err := connect.NewBroker(brokerURL(t), "test", "--amqp-url")
	need(t, err)
	if err := b.With(t.Context(), func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		q, err := ch.QueueDeclare("", false, true, true, false, nil)
		if err != nil {
			return err
		}
		w := &worker{consumer: consumer.Consumer{Queue: q.Name}}
		w.conn.Store(conn)
		if w.empty(t.Context()) {
			t.Error("empty, by an answer that counts no consumer")
		}
		if _, err := ch.Consume(q.Name, "", true, true, false, false, nil); err != nil {
			return err
		}
		if !w.empty(t.Context()) {
			t.Error("not empty, though nothing is there")
		}
		return nil
	}); err != nil {
		t.Fatal(err)
	}
}

// TestEnvironSetsNoFlag: a command may call strikes itself.
func TestEnvironSetsNoFlag(t *testing.T) {
	t.Parallel()
	env, _ := environ(nil, "q", amqp.Delivery{}, consumer.Attempt{})
	var flags []string
	var walk func(*cobra.Command)
	walk = func(c *cobra.Command) {
		c.Flags().VisitAll(func(f *pflag.Flag) { flags = append(flags, cli.Variables(f)...) })
		for _, sub := range c.Commands() {
			walk(sub)
		}
	}
	walk(new(app).root())
	if !slices.Contains(flags, "STRIKES_AMQP_URL") {
		t.Fatalf("%q", flags)
	}
	for _, v := range env {
		if name, _, _ := strings.Cut(v, "="); slices.Contains(flags, name) {
			t.Errorf("%s is a flag's", name)
		}
	}
	for _, name := range flags {
		if strings.HasPrefix(name, "STRIKES_") && strings.HasSuffix(name, "_URL") != slices.Contains(ownSecrets,
			name) {
			t.Errorf("a command would see the password in %s", name)
		}
	}
}

func TestEnviron(t *testing.T) {
	base := []string{"PATH=/bin", "STRIKES_MESSAGE_ID=of another", "STRIKES_MAX_RETRIES=7", "STRIKES_ATTEMPT",
		"STRIKES_AMQP_URL=amqp://u:hush@h", "STRIKES_STORE_URL=redis://:hush@h", "STRIKES_MANAGEMENT_URL=http://u:hush@h",
		"AMQP_URL=amqp://h"}
	d := amqp.Delivery{MessageId: "a=b\n\x1b", Exchange: "x", RoutingKey: "k", ContentType: "text/plain",
		Redelivered: true}
	env, omitted := environ(base, "orders", d, consumer.Attempt{Number: 2, Last: 4, Token: "tok-1", Fence: 3})
	want := []string{
		"PATH=/bin", "STRIKES_MAX_RETRIES=7", "AMQP_URL=amqp://h", "STRIKES_ATTEMPT=2", "STRIKES_LAST=4",
		"STRIKES_MESSAGE_ID=a=b\n\x1b",
		"STRIKES_QUEUE=orders", "STRIKES_EXCHANGE=x", "STRIKES_ROUTING_KEY=k", "STRIKES_CONTENT_TYPE=text/plain",
		"STRIKES_REDELIVERED=true", "STRIKES_TOKEN=tok-1", "STRIKES_FENCE=3",
	}
	if diff := cmp.Diff(want, env); diff != "" || omitted != nil {
		t.Errorf("omitted %q, environment (-want +got):\n%s", omitted, diff)
	}
}

func TestEnvironOmitsNUL(t *testing.T) {
	base := []string{"STRIKES_MESSAGE_ID=of another"}
	env, omitted := environ(base, "q", amqp.Delivery{MessageId: "a\x00b", RoutingKey: "\x00"}, consumer.Attempt{})
	if !slices.Equal(omitted, []string{"STRIKES_MESSAGE_ID", "STRIKES_ROUTING_KEY"}) ||
		slices.Contains(env, base[0]) || !slices.Contains(env, "STRIKES_QUEUE=q") {
		t.Errorf("omitted %q, environment %q", omitted, env)
	}
}

// FuzzEnviron shows that each property of a message is one variable, whatever the message holds.
func FuzzEnviron(f *testing.F) {
	f.Add("orders", "m1", "", "orders", "text/plain", "PATH=/bin")
	f.Add("a\nb", "\x00", "=", "A=B", "\xff", "STRIKES_QUEUE=other")
	f.Add("", "", "", "", "", "STRIKES_ATTEMPT")
	f.Fuzz(func(t *testing.T, queue, id, exchange, key, kind, base string) {
		d := amqp.Delivery{MessageId: id, Exchange: exchange, RoutingKey: key, ContentType: kind}
		env, omitted := environ([]string{base}, queue, d, consumer.Attempt{Number: 1})
		seen := map[string]bool{}
		for _, v := range env {
			name, value, _ := strings.Cut(v, "=")
			if strings.HasPrefix(name, "STRIKES_") && (seen[name] || strings.ContainsRune(value, 0) && v != base) {
				t.Errorf("%q is there twice, or cannot be", v)
			}
			seen[name] = true
		}
		if len(seen) < 10-len(omitted) {
			t.Errorf("%d variables, %v omitted", len(seen), omitted)
		}
	})
}
