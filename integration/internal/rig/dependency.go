package rig

import (
	"context"
	"net/http"
	"net/http/httptest"

	"github.com/strikesmq/strikes/internal/proxy"
)

// Dependency is an HTTP service that handlers call, behind a proxy that can cut it off.
type Dependency struct {
	URL    string
	Link   *proxy.Proxy
	server *httptest.Server
}

// OpenDependency starts the service. It answers each request with 204.
func OpenDependency(ctx context.Context) (*Dependency, error) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusNoContent)
	}))
	link, err := proxy.New(ctx, server.Listener.Addr().String())
	if err != nil {
		server.Close()
		return nil, err
	}
	return &Dependency{URL: "http://" + link.Addr(), Link: link, server: server}, nil
}

// Close ends the service.
func (d *Dependency) Close() error {
	if d != nil {
		d.Link.Close()
		d.server.Close()
	}
	return nil
}
