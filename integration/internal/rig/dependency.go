package rig

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"time"

	"github.com/strikesmq/strikes/internal/proxy"
)

// Dependency is an HTTP service that handlers call, behind a proxy that can cut it off.
type Dependency struct {
	URL    string
	server *http.Server
	link   *proxy.Proxy
}

// OpenDependency starts the service. It answers each request with 204.
func OpenDependency(ctx context.Context) (*Dependency, error) {
	listener, err := (&net.ListenConfig{}).Listen(ctx, "tcp", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("starting the dependency: %w", err)
	}
	link, err := proxy.New(ctx, listener.Addr().String())
	if err != nil {
		return nil, errors.Join(err, listener.Close())
	}
	d := &Dependency{URL: "http://" + link.Addr(), link: link, server: &http.Server{
		ReadHeaderTimeout: time.Minute,
		Handler: http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(http.StatusNoContent)
		}),
	}}
	go func() { _ = d.server.Serve(listener) }() // until Close
	return d, nil
}

// Away cuts the service off, or lets it come back.
func (d *Dependency) Away(is bool) { d.link.Refuse(is) }

// Close ends the service.
func (d *Dependency) Close() error {
	if d == nil {
		return nil
	}
	d.link.Close()
	return d.server.Close()
}
