package broker

import (
	"context"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// replaying is how long the broker waits for a quorum queue that replays its log, less a margin. RabbitMQ 3.10.8, 4.0.5
// and 4.3.6 wait 250 ms.
const replaying = 200 * time.Millisecond

// Takes reports whether a queue takes messages now. The node of a classic queue may be down. After a start of the
// broker, a quorum queue replays its log, for 7 s if its messages were often read and returned (4.3.6). Meanwhile it
// has no leader, and the broker drops what a classic queue dead-letters to it.
//
// The broker does not say so. It waits 250 ms for such a queue, and then says that the queue is empty and has no
// consumers. If it says so three times, Takes returns false. A reply that comes late for another reason follows a late
// reply to basic.qos.
func Takes(ctx context.Context, conn *amqp.Connection, queue string) (bool, error) {
	ctx, cancel := context.WithTimeoutCause(ctx, queueAnswers, ErrAway)
	defer cancel()
	replays := false
	err := OnChannel(ctx, conn, func(ch *amqp.Channel) error {
		for range 3 {
			began := time.Now()
			if err := ch.Qos(1, 0, false); err != nil {
				return err
			}
			asked := time.Now()
			q, err := Passive(ch, queue)
			replays = q.Messages+q.Consumers == 0 && time.Since(asked) >= asked.Sub(began)+replaying
			if err != nil || !replays {
				return err
			}
		}
		return nil
	})
	if err != nil { // replays may be written yet
		return !IsAway(err), UnlessRefused(err)
	}
	return !replays, nil
}
