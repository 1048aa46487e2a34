package deadletter

// amqp091-go reads all that a consumer is sent, however slowly it is received: only the prefetch bounds what waits in
// memory. So a queue that is held as a whole is read by one consumer after the other; each is added when the one before
// is full.
const (
	// mostConsumers on one channel. A quorum queue returns what up to 32 consumers held in the order of their tags, that
	// of a small map.
	mostConsumers = 24
	// mostWaiting is what may wait in memory, in bytes, if the number of consumers allows.
	mostWaiting = 32 << 20
	// besideBody is what a dead letter takes in memory beside its body, mostly for its headers.
	besideBody = 3 << 10
	// firstPrefetch is used while the size of the messages is not known.
	firstPrefetch = 200
	// largestPrefetch is that of AMQP. Without a prefetch a quorum queue delivers only 2000 messages (3.10.8, 4.0.5,
	// 4.3.6).
	largestPrefetch = 1<<16 - 1
)

// prefetchFor returns the prefetch of one more consumer for so many messages left, of that average size.
func prefetchFor(left, size, consumers int) int {
	if consumers == 0 {
		return firstPrefetch
	}
	byMemory := mostWaiting / (size + besideBody)
	byNumber := left/max(mostConsumers-consumers, 1) + 1
	return min(max(byMemory, byNumber, 1), largestPrefetch)
}

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
