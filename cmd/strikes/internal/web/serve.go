package web

import (
	"context"
	"errors"
	"net"
	"net/http"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	briefTimeout  = time.Minute
	stopTimeout   = 5 * time.Second
)

// Listen listens at an address. If that fails, the error is misuse of the flag.
func Listen(ctx context.Context, flag, address string) (net.Listener, error) {
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if err != nil {
		return nil, cli.Misusef("--%s: %w", flag, err)
	}
	return listener, nil
}

// Brief returns a server for requests that take less than a minute each.
func Brief(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, ReadTimeout: briefTimeout,
		WriteTimeout: briefTimeout}
}

// Serve serves until ctx is done. Requests that do not end within 5 s after that are aborted.
func Serve(ctx context.Context, l net.Listener, server *http.Server) error {
	stopped := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(stopped)
		within, cancel := context.WithTimeout(context.WithoutCancel(ctx), stopTimeout)
		defer cancel()
		_ = server.Shutdown(within)
		_ = server.Close()
	})
	err := server.Serve(l)
	if !stop() {
		<-stopped
	}
	if errors.Is(err, http.ErrServerClosed) {
		return nil
	}
	return err
}
