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
	server *httptest.Server
	link   *proxy.Proxy
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
	return &Dependency{URL: "http://" + link.Addr(), link: link, server: server}, nil
}

// Away cuts the service off, or lets it come back.
func (d *Dependency) Away(is bool) { d.link.Refuse(is) }

// Close ends the service.
func (d *Dependency) Close() error {
	if d != nil {
		d.link.Close()
		d.server.Close()
	}
	return nil
}
