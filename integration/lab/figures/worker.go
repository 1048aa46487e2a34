package figures

import (
	"context"
	"encoding/json"
	"errors"
	"os"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/pause"
)

const heartbeat = 5 * time.Second

// workerSpec is what one consumer process is told.
type workerSpec struct {
	AMQP, Redis, Queue string
	Concurrency        int
	Prefetch           int           // if zero, the consumer's default
	DrainTimeout       time.Duration // if zero, the consumer's default
	Runs               bool          // tell of the begin and end of each run
	Every              time.Duration // tell of the tally so often; zero: only at the end
}

// member is that process. It writes a line to standard output for each thing it tells.
type member struct {
	workerSpec
	stopping chan struct{} // closed once the signal has come, and the handlers that ran then are counted
	running  atomic.Int64
	tally    counts

	mu  sync.Mutex
	out *json.Encoder
}

func runWorker(ctx context.Context, spec workerSpec) error {
	w := member{workerSpec: spec, stopping: make(chan struct{}), out: json.NewEncoder(os.Stdout)}
	store, err := counter.Dial(w.Redis, nil)
	if err != nil {
		return err
	}
	running, ended := context.WithCancel(ctx)
	defer ended()
	reported := make(chan struct{})
	go func() {
		defer close(reported)
		w.report(ctx, running)
	}()
	err = w.consumer(store).Run(ctx, w.dial)
	ended()
	<-reported
	w.tell(line{Kind: stopped})
	return errors.Join(err, store.Close())
}

func (w *member) consumer(store *counter.Counter) *consumer.Consumer {
	return &consumer.Consumer{
		Queue: w.Queue, Handler: w.handle, Counter: store, Concurrency: w.Concurrency, Prefetch: w.Prefetch,
		DrainTimeout: w.DrainTimeout, Observer: &w.tally,
	}
}

func (w *member) dial(ctx context.Context) (*amqp.Connection, error) {
	return consumer.Dialer(w.AMQP, amqp.Config{Heartbeat: heartbeat})(ctx)
}

// report tells of the tally while the consumer runs. If the signal ends it, report tells how many handlers it hit; then
// those that wait for it go on.
func (w *member) report(signal, running context.Context) {
	if w.Every > 0 {
		for pause.For(running, w.Every) {
			w.tell(line{Kind: report})
		}
	}
	<-running.Done()
	if signal.Err() != nil {
		w.tell(line{Kind: signalled, Running: int(w.running.Load())})
	}
	close(w.stopping)
}

func (w *member) tell(l line) {
	w.mu.Lock()
	defer w.mu.Unlock()
	l.At, l.CPU, l.Tally = time.Now(), cpu(), w.tally.now()
	_ = w.out.Encode(l) //nolint:musttag // read by this program alone; without a reader this process ends
}

// cpu is what this process has used so far.
func cpu() time.Duration {
	var u syscall.Rusage
	if err := syscall.Getrusage(syscall.RUSAGE_SELF, &u); err != nil {
		return 0
	}
	return time.Duration(u.Utime.Nano() + u.Stime.Nano())
}

// Bodies say what the handler does. Any other is how long it takes.
const (
	failing   = "fail" // at the first attempt
	untilStop = "stop" // succeed when the process is told to stop, or after untilStopMost
)

const untilStopMost = 200 * time.Millisecond

var errFirst = errors.New("the first attempt fails")

func (w *member) handle(ctx context.Context, d amqp.Delivery) error {
	w.running.Add(1)
	defer w.running.Add(-1)
	w.tally.began(d.Redelivered)
	if w.Runs {
		w.tell(line{Kind: began, ID: d.MessageId})
	}
	err := w.do(ctx, string(d.Body))
	if err == nil {
		w.tally.handled.Add(1)
	}
	if w.Runs {
		w.tell(line{Kind: ended, ID: d.MessageId, OK: err == nil})
	}
	return err
}

func (w *member) do(ctx context.Context, body string) error {
	switch body {
	case failing:
		if attempt, _ := consumer.AttemptFrom(ctx); attempt.Number == 1 {
			return errFirst
		}
		return nil
	case untilStop:
		select {
		case <-w.stopping:
		case <-time.After(untilStopMost):
		}
		return nil
	}
	d, err := time.ParseDuration(body)
	if err != nil {
		return consumer.Reject(err)
	}
	if !pause.For(ctx, d) {
		return ctx.Err()
	}
	return nil
}
