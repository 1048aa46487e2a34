// Package control reads whether operators paused a queue or skipped messages of it.
package control

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
	Every   = time.Second
	Timeout = 500 * time.Millisecond

	// leaving is how long a stop waits for the store to take the last report, if the store replied before.
	leaving = 2 * time.Second
)

// Store is a store by which operators pause a queue and skip messages.
type Store interface {
	Control(ctx context.Context, vhost, queue string, r counter.Reader) (counter.Control, error)
}

// Control reads once a second whether operators paused the queue or skipped messages. All sessions of a consumer share
// one. If the store does not reply, its last reply stands.
type Control struct {
	store        Store
	vhost, queue string
	reader       counter.Reader
	logger       *slog.Logger

	mu       sync.Mutex
	reply    counter.Control              // the last one
	changed  chan struct{}                // closed when reply changes
	sessions map[*context.CancelFunc]bool // that consume
	held     map[any]uncountedSince       // deliveries whose last attempt was not counted

	first chan struct{} // closed when the first read is done
	again chan struct{} // asks for a read now
	begin sync.Once
	stop  chan struct{}
	done  chan struct{}
}

// New returns one that reads once Start is called. The reader names the process.
func New(store Store, vhost, queue string, reader counter.Reader, logger *slog.Logger) *Control {
	return &Control{
		store: store, vhost: vhost, queue: queue, logger: logger, reader: reader,
		changed:  make(chan struct{}),
		sessions: map[*context.CancelFunc]bool{},
		first:    make(chan struct{}), again: make(chan struct{}, 1), stop: make(chan struct{}), done: make(chan struct{}),
	}
}

// First returns a channel that is closed when the first read is done.
func (k *Control) First() <-chan struct{} { return k.first }

// Start begins the reading, which goes on until Stop is called. Further calls do nothing.
func (k *Control) Start() { k.begin.Do(func() { go k.run() }) }

// Stop ends the reading. If it had begun, Stop then reports to the store that this process has left, and waits for the
// reply for a short time. Call it once.
func (k *Control) Stop() {
	k.begin.Do(func() { close(k.done) }) // it has not begun
	close(k.stop)
	<-k.done
}

func (k *Control) run() {
	defer close(k.done)
	reached := k.read(true)
	close(k.first)
	for {
		select {
		case <-time.After(Every):
		case <-k.again:
		case <-k.stop:
			k.leave(reached)
			return
		}
		reached = k.read(reached)
	}
}

// read reports whether the store replied, and logs it if that has changed.
func (k *Control) read(reached bool) bool {
	ctx, cancel := context.WithTimeout(context.Background(), Timeout)
	defer cancel()
	k.mu.Lock()
	reader, paused := k.reader, k.reply.Paused
	reader.Stopped = paused && len(k.sessions) == 0
	reader.Waiting = k.holds(time.Now())
	k.mu.Unlock()
	reply, err := k.store.Control(ctx, k.vhost, k.queue, reader)
	switch {
	case err != nil && reached:
		k.logger.Warn("reading whether the queue is paused failed; the last reply of the store stands",
			"queue", k.queue, "paused", paused, "error", err)
	case err == nil && !reached:
		k.logger.Info("the store says again whether the queue is paused", "queue", k.queue, "paused", reply.Paused)
	}
	if err == nil {
		k.take(reply)
	}
	return err == nil
}

// leave reports that this process has left. A process whose report is lost is forgotten after a minute.
func (k *Control) leave(reached bool) {
	patience := Timeout
	if reached {
		patience = leaving
	}
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	reader := k.reader
	reader.Left = true
	_, _ = k.store.Control(ctx, k.vhost, k.queue, reader)
}

// take stores a reply. A pause ends the sessions that consume.
func (k *Control) take(reply counter.Control) {
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

// Current returns the last reply, and a channel that is closed with the next that differs.
func (k *Control) Current() (counter.Control, <-chan struct{}) {
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.reply, k.changed
}

// Consuming returns a context for a session, which ends with ctx and with a pause. The caller calls end once the
// session holds no delivery any more.
func (k *Control) Consuming(ctx context.Context) (session context.Context, end func()) {
	session, cancel := context.WithCancel(ctx)
	k.mu.Lock()
	defer k.mu.Unlock()
	k.sessions[&cancel] = true
	if k.reply.Paused {
		cancel()
	}
	return session, func() {
		cancel()
		k.mu.Lock()
		defer k.mu.Unlock()
		delete(k.sessions, &cancel)
		if k.reply.Paused && len(k.sessions) == 0 {
			k.ReadNow()
		}
	}
}

// ReadNow has it read now.
func (k *Control) ReadNow() {
	select {
	case k.again <- struct{}{}:
	default:
	}
}
