package consumer

import (
	"context"
	"log/slog"
	"reflect"
	"sync"
	"time"

	"github.com/strikesmq/strikes/counter"
)

// A pause is in force within two seconds: one read a second, and the time that a read may take.
const (
	controlEvery   = time.Second
	controlTimeout = 500 * time.Millisecond
)

// controller is a Counter by which operators pause a queue and skip messages.
type controller interface {
	Control(ctx context.Context, vhost, queue string, r counter.Reader) (counter.Control, error)
}

// control reads once a second, for all consumers of the process on a queue, whether operators paused the queue or
// skipped messages, and whether lanes are blocked that a session would not hold. If the store does not reply, its last
// reply stands. A nil control has neither.
type control struct {
	store        controller
	vhost, queue string
	reader       counter.Reader
	logger       *slog.Logger

	mu       sync.Mutex
	reply    counter.Control              // the last one
	changed  chan struct{}                // closed when reply changes
	sessions map[*context.CancelFunc]bool // of those that consume; true: it holds no lanes
	held     map[*delivery]uncountedSince // deliveries whose last attempt was not counted
	lanes    int                          // held ones of the queue, as the store last said
	unknown  bool                         // the store did not say it when it was last asked

	first chan struct{} // closed when the first read is done
	again chan struct{} // asks for a read now
	stop  chan struct{}
	done  chan struct{}
}

func newControl(s *session, store controller) *control {
	return &control{
		store: store, vhost: s.vhost, queue: s.Queue, logger: s.Logger,
		reader:   counter.Reader{Token: token(tokens.Add(1)).String(), Consumer: s.Name},
		changed:  make(chan struct{}),
		sessions: map[*context.CancelFunc]bool{},
		first:    make(chan struct{}), again: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// run reads until stop is closed. Then it reports that this process has left.
func (k *control) run() {
	defer close(k.done)
	reached := k.read(true)
	close(k.first)
	for {
		timer := time.NewTimer(controlEvery)
		select {
		case <-timer.C:
		case <-k.again:
			timer.Stop()
		case <-k.stop:
			timer.Stop()
			if reached {
				k.leave()
			}
			return
		}
		reached = k.read(reached)
	}
}

// read reports whether the store replied, and logs it if that has changed.
func (k *control) read(reached bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	k.mu.Lock()
	reader, paused := k.reader, k.reply.Paused
	reader.Stopped = paused && len(k.sessions) == 0
	reader.Waiting = k.holds(time.Now())
	k.mu.Unlock()
	reply, err := k.store.Control(ctx, k.vhost, k.queue, reader)
	switch {
	case err != nil && reached:
		k.logger.Warn("reading whether the queue is paused: the store does not reply; its last reply stands",
			"queue", k.queue, "paused", paused, "error", err)
	case err == nil && !reached:
		k.logger.Info("the store replies again", "queue", k.queue, "paused", reply.Paused)
	}
	if err == nil {
		k.take(reply)
		k.lookForLanes(ctx)
	}
	return err == nil
}

// lookForLanes ends the sessions that hold no lanes once a lane is blocked. The check before their next sessions refuses
// the queue.
func (k *control) lookForLanes(ctx context.Context) {
	store, ok := k.store.(LaneKeeper)
	if !ok || len(k.holdingNoLanes()) == 0 {
		return
	}
	held, err := store.BlockedLanes(ctx, k.vhost, k.queue)
	if err != nil {
		k.lanesUnknown(err)
		return
	}
	k.noteLanes(held)
	if held == 0 {
		return
	}
	for _, cancel := range k.holdingNoLanes() {
		(*cancel)()
	}
}

func (k *control) noteLanes(held int) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.lanes, k.unknown = held, false
}

// lanesUnknown logs the first of several errors.
func (k *control) lanesUnknown(err error) {
	k.mu.Lock()
	held, logged := k.lanes, k.unknown
	k.unknown = true
	k.mu.Unlock()
	if !logged {
		k.logger.Warn("whether lanes of the queue are blocked is not known: the last number stands", "queue", k.queue,
			"blocked", held, "error", err)
	}
}

func (k *control) blockedLanes() int {
	if k == nil {
		return 0
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.lanes
}

func (k *control) holdingNoLanes() (sessions []*context.CancelFunc) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for cancel, none := range k.sessions {
		if none {
			sessions = append(sessions, cancel)
		}
	}
	return sessions
}

func (k *control) leave() {
	ctx, cancel := context.WithTimeout(context.Background(), controlTimeout)
	defer cancel()
	reader := k.reader
	reader.Left = true
	_, _ = k.store.Control(ctx, k.vhost, k.queue, reader) // else it is forgotten after a minute
}

// take stores a reply. A pause ends the sessions that consume.
func (k *control) take(reply counter.Control) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if reflect.DeepEqual(reply, k.reply) {
		return
	}
	k.reply = reply
	close(k.changed)
	k.changed = make(chan struct{})
	if reply.Paused {
		for cancel := range k.sessions {
			(*cancel)()
		}
	}
}

// current returns the last reply, and a channel that is closed with the next that differs.
func (k *control) current() (counter.Control, <-chan struct{}) {
	if k == nil {
		return counter.Control{}, nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reply, k.changed
}

// consuming returns a context for a session, which ends with ctx and with a pause, and once a lane is blocked that the
// session would not hold. The caller calls end once the session holds no delivery any more.
func (k *control) consuming(ctx context.Context, holdsLanes bool) (session context.Context, end func()) {
	session, cancel := context.WithCancel(ctx)
	if k == nil {
		return session, cancel
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sessions[&cancel] = !holdsLanes
	if k.reply.Paused {
		cancel()
	}
	return session, func() {
		cancel()
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.sessions, &cancel)
		if k.reply.Paused && len(k.sessions) == 0 {
			k.readNow()
		}
	}
}

func (k *control) readNow() {
	select {
	case k.again <- struct{}{}:
	default:
	}
}

// How a wait ended.
type waited int

const (
	waitOver waited = iota + 1
	waitStopped
	waitSkipped
)

// wait holds a delivery for its backoff. A stop ends the wait; an operator's skip ends it once.
func (k *control) wait(ctx context.Context, d *delivery, backoff time.Duration) waited {
	timer := time.NewTimer(backoff)
	defer timer.Stop()
	for {
		reply, changed := k.current()
		if !d.skipped && reply.Skips(d.message) {
			d.skipped = true
			return waitSkipped
		}
		if ctx.Err() != nil { // also of a wait that is over already
			return waitStopped
		}
		select {
		case <-ctx.Done():
			return waitStopped
		case <-timer.C:
			return waitOver
		case <-changed:
		}
	}
}
