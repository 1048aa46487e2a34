package main

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"sync/atomic"
)

// health answers the probes of an orchestrator.
type health struct{ consuming atomic.Bool }

// ServeHTTP serves /live, which never fails: a restart repairs neither broker nor store. /ready is 200 while the broker
// sends messages to this process: not before the session began, not while the queue is paused, and not once the process
// is stopped.
func (h *health) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.URL.Path == "/live":
		_, _ = io.WriteString(w, "alive\n")
	case r.URL.Path == "/ready" && h.consuming.Load():
		_, _ = io.WriteString(w, "consuming\n")
	case r.URL.Path == "/ready":
		http.Error(w, "not consuming", http.StatusServiceUnavailable)
	default:
		http.NotFound(w, r)
	}
}

// serve answers at an address until stop is called. An address that cannot be used is misuse.
func (h *health) serve(ctx context.Context, address string, says io.Writer) (stop func(), err error) {
	listener, err := listen(ctx, "health-addr", address)
	if err != nil {
		return nil, err
	}
	fmt.Fprintf(says, "strikes: /live and /ready at http://%s\n", listener.Addr())
	serving, end := context.WithCancel(context.WithoutCancel(ctx))
	served := make(chan struct{})
	go func() {
		defer close(served)
		_ = serve(serving, listener, brief(h)) // probes fail once nothing listens
	}()
	return func() { end(); <-served }, nil
}
