package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"sync/atomic"
	"syscall"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/printable"
)

const (
	headerTimeout = 10 * time.Second
	idleTimeout   = 2 * time.Minute
	briefTimeout  = time.Minute
	stopTimeout   = 5 * time.Second
)

// pages say where a command listens, and who may come.
type pages struct {
	address   string   // --listen
	hosts     []string // names under which browsers may reach it
	tokenFile string
	cert, key string
}

func (f *pages) addTo(cmd *cobra.Command, listen string) {
	flags := cmd.Flags()
	flags.StringVar(&f.address, "listen", listen,
		"serve at this `ADDRESS`; one that other machines reach needs --token-file")
	flags.StringArrayVar(&f.hosts, "host", nil, "serve under this `NAME` too, as browsers write it; repeatable")
	flags.StringVar(&f.tokenFile, "token-file", "", "ask for the token that `FILE` holds, 16 bytes at least")
	flags.StringVar(&f.cert, "tls-cert", "", "serve HTTPS with the certificates of `FILE` (PEM)")
	flags.StringVar(&f.key, "tls-key", "", "and the key of `FILE` (PEM)")
	cli.FromEnv(flags, "listen", "token-file", "tls-cert", "tls-key")
}

// token reads the token; empty without --token-file, which only an address of this machine allows.
func (f pages) token() (string, error) {
	host, _, err := net.SplitHostPort(f.address)
	if err != nil {
		return "", cli.Refused("listen", f.address, "an address like 127.0.0.1:9463")
	}
	if (f.cert == "") != (f.key == "") {
		return "", cli.Misusef("--tls-cert and --tls-key need each other")
	}
	if f.tokenFile == "" {
		if host != "localhost" && !net.ParseIP(host).IsLoopback() {
			return "", cli.Misusef("other machines reach %s: give --token-file, or listen on 127.0.0.1", f.address)
		}
		return "", nil
	}
	text, err := os.ReadFile(f.tokenFile)
	if err != nil {
		return "", cli.Misusef("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < 16 {
		return "", cli.Misusef("--token-file: %s must hold 16 bytes at least (openssl rand -hex 16 > FILE)", f.tokenFile)
	}
	return token, nil
}

// names are the hosts that requests may name: those of this machine, that of --listen, and those of --host.
func (f pages) names() []string {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, f.hosts...)
	if host, _, err := net.SplitHostPort(f.address); err == nil && host != "" && !net.ParseIP(host).IsUnspecified() {
		names = append(names, host)
	}
	return names
}

// serve serves until ctx is done. It writes the URL to out once it listens.
func (f pages) serve(ctx context.Context, h http.Handler, out io.Writer) error {
	listener, err := listen(ctx, "listen", f.address)
	if err != nil {
		return err
	}
	scheme := "http"
	if f.cert != "" {
		pair, err := tls.LoadX509KeyPair(f.cert, f.key)
		if err != nil {
			return errors.Join(cli.Misusef("--tls-cert, --tls-key: %w", err), listener.Close())
		}
		scheme, listener = "https", tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair},
			MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	}
	if _, err := fmt.Fprintf(out, "%s://%s/\n", scheme, listener.Addr()); err != nil {
		return errors.Join(err, listener.Close())
	}
	// Streams last as long as their pages, so they have no timeout, and end with ctx.
	return serve(ctx, listener, &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context {
			return ctx
		},
	})
}

// listen listens at an address. If that fails, the error is misuse of the flag.
func listen(ctx context.Context, flag, address string) (net.Listener, error) {
	if address == "" { // to net that is all addresses, and any port
		return nil, cli.Refused(flag, address, "an address like 127.0.0.1:9464")
	}
	listener, err := new(net.ListenConfig).Listen(ctx, "tcp", address)
	if errors.Is(err, syscall.EADDRINUSE) {
		err = fmt.Errorf("%w; stop the program that listens there, or give another port", err)
	}
	if err != nil {
		return nil, cli.Misusef("--%s: %w", flag, err)
	}
	return listener, nil
}

// checkQueues refuses a --queue that is a partition, or has a name that no queue can have. It warns of one that does
// not exist, because that may be declared later.
func (a *app) checkQueues(ctx context.Context, o *connect.Flags, names []string) error {
	for _, name := range names {
		if err := broker.CheckName(name); err != nil {
			return cli.Misusef("--queue: %w", err)
		}
		switch err := o.RefuseMissing(ctx, name); {
		case errors.Is(err, broker.ErrNotFound), broker.MissingVHost(err):
			fmt.Fprintf(a.Err, "strikes: warning: %s\n", printable.Text(err.Error(), ""))
		case err != nil:
			return err
		}
	}
	return nil
}

// brief returns a server for requests that take less than a minute each.
func brief(h http.Handler) *http.Server {
	return &http.Server{Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout, ReadTimeout: briefTimeout,
		WriteTimeout: briefTimeout}
}

// serve serves until ctx is done. Requests that do not end within 5 s after that are aborted.
func serve(ctx context.Context, l net.Listener, server *http.Server) error {
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
