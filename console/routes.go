package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/ops"
)

// routes are the pages. They are beside each other, so that relative links lead from each to each.
func (c *Console) routes() *http.ServeMux {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", c.show(c.queuesPage))
	mux.HandleFunc("GET /live", c.live)
	mux.HandleFunc("GET /doctor", c.show(c.doctorPage))
	mux.HandleFunc("POST /doctor", c.act(c.beginExamination))
	mux.HandleFunc("GET /change", c.act(c.askChange))
	mux.HandleFunc("POST /change", c.act(c.makeChange))
	mux.HandleFunc("POST /logout", c.logout)
	mux.HandleFunc("/", func(w http.ResponseWriter, r *http.Request) { c.fail(w, r, errNoPage) })
	for pattern, serve := range map[string]http.HandlerFunc{ // of a queue
		"GET /queue":        c.show(c.queuePage),
		"GET /audit":        c.show(c.auditPage),
		"GET /audit.ndjson": c.act(c.auditFile),
		"GET /dead":         c.show(c.deadPage),
		"GET /message":      c.show(c.messagePage),
		"POST /message":     c.act(c.readMessage),
		"GET /replay":       c.show(c.jobPage),
		"POST /replay":      c.act(c.begin),
		"GET /drop":         c.show(c.jobPage),
		"POST /drop":        c.act(c.begin),
		"POST /stop":        c.act(c.stopJob),
	} {
		mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
			if err := checkQueue(r); err != nil {
				c.fail(w, r, err)
				return
			}
			serve(w, r)
		})
	}
	return mux
}

// show serves a page. A page says itself if broker or store is out of reach.
func (c *Console) show(screen func(*http.Request) (page, error)) http.HandlerFunc {
	return c.act(func(w http.ResponseWriter, r *http.Request) error {
		p, err := guardedAsk(c, func() (page, error) { return screen(r) })
		if err == nil {
			c.render(w, r, cmp.Or(p.Code, http.StatusOK), p)
		}
		return err
	})
}

// act serves a request that may change something, or its error. It bounds the time of all its questions to the
// servers.
func (c *Console) act(do func(http.ResponseWriter, *http.Request) error) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		ctx, cancel := context.WithTimeout(r.Context(), c.patience.asked)
		defer cancel()
		r = r.WithContext(ctx)
		if err := do(w, r); err != nil {
			c.fail(w, r, err)
		}
	}
}

func (c *Console) fail(w http.ResponseWriter, r *http.Request, err error) {
	code := codeOf(err)
	c.render(w, r, code, page{Screen: "problem", Title: http.StatusText(code), View: shown(err.Error())})
}

const (
	// largestForm is the largest form that is accepted, in bytes.
	largestForm = 64 << 10
	// slowestForm bounds how long it may take to arrive. Requests with a form are answered within it.
	slowestForm = time.Minute
)

type refusedError struct {
	code int // HTTP status of the page that says so
	text string
}

func (e refusedError) Error() string { return e.text }

var errNoPage error = refusedError{http.StatusNotFound, "there is no such page"}

// formError refuses the content of a form or an address.
func formError(text string) error { return refusedError{http.StatusUnprocessableEntity, text} }

func codeOf(err error) int {
	var refused refusedError
	var store *counter.StoreError
	var field *setting.FieldError
	switch {
	case errors.As(err, &refused):
		return refused.code
	case errors.Is(err, errPanicked):
		return http.StatusInternalServerError
	case errors.As(err, &field):
		return http.StatusUnprocessableEntity
	case errors.Is(err, ops.ErrNone), errors.Is(err, counter.ErrNotBlocked), errors.Is(err, broker.ErrNotFound):
		return http.StatusNotFound
	case errors.Is(err, counter.ErrOver), errors.Is(err, counter.ErrNoRecord), errors.Is(err, deadletter.ErrBusy),
		errors.Is(err, deadletter.ErrUnsafe):
		return http.StatusConflict
	case errors.As(err, &store):
		return http.StatusServiceUnavailable
	}
	return http.StatusBadGateway
}

// errPanicked is the answer of a goroutine that panicked.
var errPanicked = errors.New("the console panicked; its log has the stack")

// guarded calls f and returns errPanicked if it panics. net/http recovers panics of handlers alone: one in another
// goroutine would end the program that the console is embedded in.
func (c *Console) guarded(f func()) (err error) {
	defer func() {
		if v := recover(); v != nil {
			c.opts.Logger.Error("console: panic", "panic", fmt.Sprint(v), "stack", string(debug.Stack()))
			err = errPanicked
		}
	}()
	f()
	return nil
}

// guardedAsk is guarded for a question.
func guardedAsk[T any](c *Console, ask func() (T, error)) (value T, err error) {
	if panicked := c.guarded(func() { value, err = ask() }); panicked != nil {
		return value, panicked
	}
	return value, err
}
