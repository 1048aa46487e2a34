package integration

import (
	"errors"
	"slices"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/publisher"
)

// TestReplayLosesItsBroker cuts the connections of a replay in the middle.
func TestReplayLosesItsBroker(t *testing.T) {
	t.Parallel()
	eachType(t, func(t *testing.T, queue string) {
		const n, window = 50, 5
		q := withDeadLetters(t, queue, n)
		name := uniqueName(t, "replay")
		q.Dial = namedDialer(t, name)
		told := 0
		r, err := q.Replay(t.Context(), deadletter.Replay{Window: window, OnMessage: func(*deadletter.Message, error) {
			if told++; told == 20 {
				proctest.Eventually(t, time.Minute, "the connections are cut", func() bool { return cut(t, name) })
			}
		}})
		var lost *publisher.Error
		if !errors.Is(err, deadletter.ErrInterrupted) && !errors.As(err, &lost) || r.Done >= n || len(r.Undecided) > window {
			t.Fatalf("%d replayed, unsure %v, %v", r.Done, r.Undecided, err)
		}
		twice := settledTotal(t, queue) - n
		if twice > len(r.Undecided) {
			t.Errorf("%d messages twice, but only %v in doubt", twice, r.Undecided)
		}
		if _, err := deadLetterQueue(t, queue).Replay(t.Context(), deadletter.Replay{Window: window}); err != nil {
			t.Fatal(err)
		}
		checkReplayed(t, queue, n, twice)
	})
}

// TestReplayLosesItsStore kills the store in the middle: whether messages fail again cannot be seen any more.
func TestReplayLosesItsStore(t *testing.T) {
	t.Parallel()
	store := privateStore(t, servers.RedisOptions{})
	eachType(t, func(t *testing.T, queue string) {
		if err := store.Start(t.Context()); err != nil && !strings.Contains(err.Error(), "already") {
			t.Fatal(err)
		}
		const n = 50
		q := withDeadLetters(t, queue, n)
		q.Records = dialStore(t, servertest.Patient(t, store.URL)).Admin()
		told := 0
		r, err := q.Replay(t.Context(), deadletter.Replay{OnMessage: func(*deadletter.Message, error) {
			if told++; told == 20 {
				need(t, store.Kill())
			}
		}})
		var away *counter.StoreError
		if !errors.As(err, &away) || r.Done != 20 || len(r.Undecided) > 0 {
			t.Fatalf("%+v, %v", r, err)
		}
		q.Records = nil
		if r, err := q.Replay(t.Context(), deadletter.Replay{}); err != nil || r.Done != n-20 {
			t.Errorf("%+v, %v", r, err)
		}
		if got := ids(getAll(t, queue)); !slices.Equal(got, numbered("m", n)) {
			t.Errorf("%v", got)
		}
	})
}

// TestReplayOfAReader has a user who may read, but not write; and one who may not even read.
func TestReplayOfAReader(t *testing.T) {
	t.Parallel()
	for _, tc := range []struct {
		name, read string
		depth      int
	}{{"reads", ".*", 3}, {"is a stranger", "^$", 3}} {
		t.Run(tc.name, func(t *testing.T) {
			eachType(t, func(t *testing.T, queue string) {
				q := withDeadLetters(t, queue, 3)
				q.Dial = consumer.Dialer(userWho(t, "^$", "^$", tc.read).String(), amqp.Config{})
				r, err := q.Replay(t.Context(), deadletter.Replay{})
				var refused *publisher.Error
				var reply *amqp.Error
				denied := errors.As(err, &refused) && refused.Code == amqp.AccessRefused ||
					errors.As(err, &reply) && reply.Code == amqp.AccessRefused && !errors.Is(err, deadletter.ErrBusy)
				if !denied || r.Done != 0 || len(r.Undecided) != 0 {
					t.Errorf("%+v, %v", r, err)
				}
				if tc.name == "reads" {
					if got := idsOf(browsed(t, q, deadletter.Filter{})); !slices.Equal(got, numbered("m", 3)) { // without the lock
						t.Errorf("looked: %v", got)
					}
				}
				proctest.Eventually(t, time.Minute, "all dead letters are still there", func() bool {
					return queueDepth(t, queue+".dlq") == tc.depth
				})
			})
		})
	}
}
