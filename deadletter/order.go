package deadletter

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/broker"
)

// returnsOf returns how often a message returned to a quorum queue. It may be positive for one that never did: RabbitMQ
// 4.0 counts its delivery by the queue in which it died, and 4.3 does so if it was settled by basic.reject. It is never
// zero for one that did (3.10.8, 4.0.5, 4.3.6).
func returnsOf(headers amqp.Table) int64 {
	if n, ok := headers["x-acquired-count"]; ok { // 4.3
		return broker.Integer(n)
	}
	return broker.Integer(headers["x-delivery-count"])
}

// inOrder reports whether the held messages return to their positions: the queue has no other message that was returned
// before.
func (s *session) inOrder() bool { return s.classic || s.returns == 0 }

// keepOrder takes the other messages that were returned before, because the queue would put those that the session has
// taken behind them. It stops at the first that was not returned, and keeps none of them in memory. It goes on if ctx
// is done. The session cannot be used afterwards.
func (s *session) keepOrder(ctx context.Context, progress func(doing string, done, of int)) {
	defer s.ignore()
	if s.inOrder() {
		return
	}
	ctx = context.WithoutCancel(ctx)
	if s.prefetch > 0 { // its consumer keeps the messages that it has received since
		s.prefetch, s.room, s.single = 0, 0, false
	}
	came := 1 // from the newest consumer
	for taken, all, size := 0, 0, (step{}); !s.inOrder(); {
		if s.room == 0 || s.read >= s.ready {
			left, err := s.left()
			if err != nil || left == 0 || came == 0 {
				return
			}
			all = max(all, left)
			came, s.ready = 0, s.read+left
			size = size.next(s.returns)
			s.room = size.prefetch(left, len(s.consumers))
			if s.add(s.room, false) != nil {
				return
			}
		}
		switch _, ok, err := s.next(ctx); {
		case err != nil:
			return
		case !ok:
			s.room = 0 // the counted messages expired
		default:
			came++
			taken++
			progress("returning", taken, max(all, taken))
		}
	}
}

// step is how many messages to take in search of the last one that was returned before.
type step struct {
	size    int
	returns int64 // of the last message before it
	n       int   // of steps until now
}

// shortSteps is how many steps may use the returns of the last message.
const shortSteps = 8

// next expects the queue as Browses with one bound leave it: each ends one message behind the one before. So behind a
// message that was returned n times are n-1 that were returned less often. If there are more, the size doubles.
func (s step) next(returns int64) step {
	size := int(min(returns, largestPrefetch))
	if returns == s.returns || s.n >= shortSteps {
		size = min(2*s.size, largestPrefetch)
	}
	return step{size, returns, s.n + 1}
}

// prefetch returns the prefetch of a consumer that takes a step: everything left if only enough consumers for that can
// be added.
func (s step) prefetch(left, consumers int) int {
	if consumers >= mostConsumers-1-left/largestPrefetch {
		return min(left, largestPrefetch)
	}
	return min(s.size, left, mostWaiting/besideBody)
}

// amqp091-go reads all that a consumer is sent, however slowly it is received. Only the prefetch bounds the messages
// that wait in memory. So a queue that is held as a whole is read by one consumer after the other. Each is added when
// the one before is full.
const (
	// mostConsumers on one channel. A quorum queue returns the messages of up to 32 consumers in the order of their tags,
	// that of a small map.
	mostConsumers = 24
	// mostWaiting bounds the messages that wait in memory, in bytes, if the number of consumers allows.
	mostWaiting = 32 << 20
	// besideBody is the memory that a dead letter takes beside its body, mostly for its headers, in bytes.
	besideBody = 3 << 10
	// firstPrefetch is that of the first consumer. Each that follows brings as many as were read before.
	firstPrefetch = 20
	// largestPrefetch is that of AMQP. Without a prefetch a quorum queue delivers only 2000 messages (3.10.8, 4.0.5,
	// 4.3.6).
	largestPrefetch = 1<<16 - 1
)

// stepFor returns the prefetch of one more consumer: n if the consumers after it can take the rest. Each of them may
// take twice as many as the one before.
func stepFor(n, left, size, consumers int) int {
	most := min(max(mostWaiting/(size+besideBody), 1), largestPrefetch)
	more := max(mostConsumers-consumers, 1)
	if left > most*more {
		return min(left/more+1, largestPrefetch)
	}
	return min(max(n, left/(1<<more-1), 1), most)
}
