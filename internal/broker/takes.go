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
// has no leader, and the broker drops the dead letters of a classic queue that go to it.
//
// The broker does not say so. It waits 250 ms for such a queue, and then says that the queue is empty and has no
// consumers. Takes returns false if it says so three times, each 200 ms later than its slowest reply to basic.qos.
func Takes(ctx context.Context, conn *amqp.Connection, queue string) (bool, error) {
	replays := false
	_, err := askQueues(ctx, conn, queueAnswers, func(ch *amqp.Channel, passive passive) error {
		slowest, fastest := time.Duration(0), queueAnswers
		for range 3 {
			began := time.Now()
			if err := ch.Qos(1, 0, false); err != nil {
				return err
			}
			asked := time.Now()
			q, err := passive(queue)
			slowest, fastest = max(slowest, asked.Sub(began)), min(fastest, time.Since(asked))
			if err != nil || q.Messages+q.Consumers > 0 || fastest < slowest+replaying {
				return err
			}
		}
		replays = true
		return nil
	})
	if err != nil { // replays may be written yet
		return !IsAway(err), UnlessRefused(err)
	}
	return !replays, nil
}
