package integration

import (
	"fmt"
	"math"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/proctest"
)

// TestDeadLetterMovedBackByHand: another program moves a dead letter back into its blocked lane, with its headers, and
// it dies there once more. A replay finds it, with or without an id. The message keeps the position that it had. If
// that was given up meanwhile, it comes behind all others. RabbitMQ 4 begins a new x-death, 3.10 counts on in the old.
func TestDeadLetterMovedBackByHand(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name    string
		givenUp bool // its position
		want    string
	}{
		{"in its position", false, "abcd"},
		{"its position is given up", true, "acbd"},
	} {
		for _, ids := range []bool{true, false} {
			t.Run(fmt.Sprintf("%s, ids %v", tc.name, ids), func(t *testing.T) {
				t.Parallel()
				l := newLaneQueue(t)
				l.lane = func(amqp.Delivery) string { return "lane" }
				broken, ran := true, ""
				l.receive = func(d amqp.Delivery) {
					l.mu.Lock()
					defer l.mu.Unlock()
					l.bad[d.MessageId] = broken
					if !broken {
						ran += string(d.Body)
					}
				}
				publish := func(body string) {
					m := amqp.Publishing{Body: []byte(body), DeliveryMode: amqp.Persistent}
					if ids {
						m.MessageId = "id " + body
					}
					publishBare(t, l.name, m)
				}
				l.consume(t, nil)
				for i, body := range []string{"a", "b"} {
					publish(body)
					l.awaitDead(t, i+1)
				}
				held, _, err := l.counts.Admin().Lanes(t.Context(), "/", l.name, math.MaxInt)
				if err != nil || len(held) != 1 || strings.HasPrefix(held[0].By, "fp:") == ids {
					t.Errorf("%+v, %v; want a lane that is blocked by an id, or else by a fingerprint", held, err)
				}
				moved := l.takeLast(t, 2)
				q, lane := l.open(t, "lane")
				if tc.givenUp {
					state, err := lane.Store.Lane(t.Context(), "/", l.name, "lane")
					need(t, err)
					need(t, errOf(lane.Store.DropPositions(t.Context(), "/", l.name, "lane",
						[]counter.Position{{Since: state.Since, Number: state.Open[1]}})))
				}
				publish("c")
				l.awaitDead(t, 2)
				l.putBack(t, l.name, moved)
				l.awaitDead(t, 3)
				publish("d")
				l.awaitDead(t, 4)
				l.mu.Lock()
				broken = false
				l.mu.Unlock()
				if done, err := q.ReplayLane(t.Context(), lane); err != nil || !done.Released || done.Replayed != 4 ||
					done.Dropped != 0 {
					t.Errorf("%+v, %v; want four replayed, and none dropped", done, err)
				}
				proctest.Eventually(t, time.Minute, "the last attempt", func() bool {
					l.mu.Lock()
					defer l.mu.Unlock()
					return len(ran) >= len(tc.want)
				})
				l.mu.Lock()
				defer l.mu.Unlock()
				if ran != tc.want {
					t.Errorf("handled %q, want %q", ran, tc.want)
				}
			})
		}
	}
}
