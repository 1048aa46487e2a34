// Package console shows operators, on web pages, which messages block a queue, why messages died, and where they are
// now. With permission they replay, drop, reset, skip, limit and pause. Each change has a reason, which an audit
// keeps.
//
// A [Console] is an http.Handler. Pages are rendered by the server and work without JavaScript; with it they update
// themselves. All state of a page is in its URL. `strikes console` serves one.
//
// # Safety
//
// The console only reads unless [Options.Allow] names verbs. It serves only this machine unless there is an Authorize
// or a Token. It refuses a Host that [Options.Hosts] does not name, and requests that another site makes. It reads a
// body from the broker only after a click, and only where package deadletter says that this is safe.
package console

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/ops"
)

// Console serves the pages. It is safe for concurrent use.
type Console struct {
	opts     Options
	patience patience
	store    *counter.Admin
	broker   rabbit
	mux      *http.ServeMux
	guard    *http.CrossOriginProtection
	logins   *logins

	queues  map[string]*queueStatus
	all     *cached[ops.Overview]
	history *history
	results *results
	jobs    *jobs
	grouped map[[2]string]*cached[ops.Groups] // by queue and filter
	streams atomic.Int64

	survey *cached[examination]      // of all queues
	causes *cached[map[string]cause] // by queue; without those that have no dead letters

	storeSeen bool // an overview had the store's half; only overview, which runs once at a time, uses it

	mu      sync.Mutex      // guards queues and grouped
	base    context.Context //nolint:containedctx // of work that outlives a request
	stop    context.CancelFunc
	running sync.WaitGroup
}

// New returns a Console, which must be closed. Broker and store may be out of reach: New does not wait for them. It
// returns a *FieldError for a setting that is refused.
func New(o Options) (*Console, error) {
	o = o.withDefaults()
	if err := o.validate(); err != nil {
		return nil, err
	}
	return newConsole(o, newBroker(o), usualPatience), nil
}

func newConsole(o Options, b rabbit, p patience) *Console {
	c := &Console{
		opts: o, patience: p, store: o.Store.Admin(), broker: b, guard: http.NewCrossOriginProtection(),
		logins: &logins{byCookie: map[string]person{}}, results: &results{}, jobs: &jobs{byQueue: map[string]*job{}},
		queues: map[string]*queueStatus{}, grouped: map[[2]string]*cached[ops.Groups]{},
		history: &history{queues: map[string][]sample{}},
	}
	c.base, c.stop = context.WithCancel(context.Background())
	c.all, c.causes = newCached(c, c.overview), newCached(c, c.readCauses)
	c.survey = newCached(c, func(ctx context.Context) (examination, error) {
		return c.examine(ctx, ""), nil
	})
	c.survey.patience.asked = examineFor
	c.survey.peek(0) // the next ones are begun by pages
	c.mux = c.routes()
	c.running.Go(func() { c.sample(c.base) })
	return c
}

// Close stops the background work of the Console, and waits for it. A running replay or drop ends after its message,
// and the next Console offers to resume it. Requests must have ended.
func (c *Console) Close() error {
	c.stop()
	c.running.Wait()
	c.jobs.running.Wait()
	for _, q := range c.queues {
		q.close()
	}
	c.broker.Close()
	return nil
}

func (c *Console) records(queue string) *ops.Queue {
	return &ops.Queue{
		Store: c.store, VHost: c.opts.VHost, Name: queue,
		Unconsumed: func(ctx context.Context) (string, error) {
			ctx, cancel := context.WithTimeout(ctx, c.patience.answer)
			defer cancel()
			return c.broker.Unconsumed(ctx, queue)
		},
		Warn: func(err error) { c.opts.Logger.Warn("console: records", "queue", queue, "err", err) },
	}
}

// ServeHTTP serves the pages. Links are relative, so they work below every path: wrap the Console in http.StripPrefix.
// It answers 403 to a request that it does not let in.
func (c *Console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	setHeaders(w.Header())
	if err := c.admit(r); err != nil {
		c.opts.Logger.Warn("console: request refused", "err", err, "host", r.Host, "remote", r.RemoteAddr)
		http.Error(w, err.Error(), http.StatusForbidden)
		return
	}
	if r.ContentLength != 0 { // also before a login, when the visitor is not known
		r.Body = http.MaxBytesReader(w, r.Body, largestForm)
		// the server lifts it with the next request
		_ = http.NewResponseController(w).SetReadDeadline(time.Now().Add(slowestForm))
	}
	if strings.HasPrefix(r.URL.Path, "/static/") {
		c.static(w, r)
		return
	}
	c.enter(w, r)
}
