package deadletter

// amqp091-go reads whatever a consumer is sent, however slowly that is taken: the
// prefetch alone bounds what waits in memory. So a queue that is held as a whole
// is read by one consumer after the other, each added when the one before can
// hold no more.
const (
	// mostConsumers on one channel. A quorum queue returns what they held in the
	// order of their tags if they are no more than 32: it is that of a small map.
	mostConsumers = 24
	// mostWaiting is what may wait in memory, in bytes, if the number of consumers
	// allows.
	mostWaiting = 32 << 20
	// besideBody is what a dead letter takes in memory beside its body, for its
	// headers mostly.
	besideBody = 3 << 10
	// firstPrefetch is for when the size of the messages is not known yet.
	firstPrefetch = 200
	// largestPrefetch is that of AMQP. Without one, a quorum queue delivers 2000
	// messages and no more (3.10.8, 4.0.5, 4.3.6).
	largestPrefetch = 1<<16 - 1
)

// prefetchFor is that of one more consumer, with so many messages still to come,
// of that average size, and so many consumers there already.
func prefetchFor(left, size, consumers int) int {
	if consumers == 0 {
		return firstPrefetch
	}
	byMemory := mostWaiting / (size + besideBody)
	byNumber := left/max(mostConsumers-consumers, 1) + 1
	return min(max(byMemory, byNumber, 1), largestPrefetch)
}

// stepFor returns the prefetch of one more consumer, which brings n messages if the
// consumers after it can bring the rest. Each of them may bring twice as many.
func stepFor(n, left, size, consumers int) int {
	most := min(max(mostWaiting/(size+besideBody), 1), largestPrefetch)
	more := max(mostConsumers-consumers, 1)
	if left > most*more {
		return min(left/more+1, largestPrefetch)
	}
	return min(max(n, left/(1<<more-1), 1), most)
}
