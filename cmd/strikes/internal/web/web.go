// Package web serves HTTP for commands: it decides who may reach the address, and stops with its context.
package web

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

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
)

// Flags say where a command listens, and who may come.
type Flags struct {
	Listen    string
	Hosts     []string // names under which browsers may reach it
	TokenFile string
	Cert, Key string
	Path      string // below which the pages are, for the URL
}

// AddTo adds the flags.
func (f *Flags) AddTo(cmd *cobra.Command, listen string) {
	flags := cmd.Flags()
	flags.StringVar(&f.Listen, "listen", listen,
		"serve at this `ADDRESS`; one that other machines reach needs --token-file")
	flags.StringArrayVar(&f.Hosts, "host", nil, "serve under this `NAME` too, as browsers write it; repeatable")
	flags.StringVar(&f.TokenFile, "token-file", "", "ask for the token that `FILE` holds, 16 bytes at least")
	flags.StringVar(&f.Cert, "tls-cert", "", "serve HTTPS with the certificates of `FILE` (PEM)")
	flags.StringVar(&f.Key, "tls-key", "", "and the key of `FILE` (PEM)")
	cli.FromEnv(flags, "listen", "token-file", "tls-cert", "tls-key")
}

// Token reads the token; empty without --token-file, which only an address of this machine allows.
func (f Flags) Token() (string, error) {
	host, _, err := net.SplitHostPort(f.Listen)
	if err != nil {
		return "", cli.Refused("listen", f.Listen, "an address like 127.0.0.1:9463")
	}
	if (f.Cert == "") != (f.Key == "") {
		return "", cli.Misusef("--tls-cert and --tls-key need each other")
	}
	if f.TokenFile == "" {
		if host != "localhost" && !net.ParseIP(host).IsLoopback() {
			return "", cli.Misusef("other machines reach %s: give --token-file, or listen on 127.0.0.1", f.Listen)
		}
		return "", nil
	}
	text, err := os.ReadFile(f.TokenFile)
	if err != nil {
		return "", cli.Misusef("--token-file: %w", err)
	}
	token := strings.TrimSpace(string(text))
	if len(token) < 16 {
		return "", cli.Misusef("--token-file: %s must hold 16 bytes at least (openssl rand -hex 16 > FILE)", f.TokenFile)
	}
	return token, nil
}

// Names are the hosts that requests may name: those of this machine, that of --listen, and those of --host.
func (f Flags) Names() []string {
	names := append([]string{"localhost", "127.0.0.1", "::1"}, f.Hosts...)
	if host, _, err := net.SplitHostPort(f.Listen); err == nil && host != "" && !net.ParseIP(host).IsUnspecified() {
		names = append(names, host)
	}
	return names
}

// Serve serves until ctx is done. It writes the URL to out once it listens.
func (f Flags) Serve(ctx context.Context, h http.Handler, out io.Writer) error {
	listener, err := Listen(ctx, "listen", f.Listen)
	if err != nil {
		return err
	}
	scheme := "http"
	if f.Cert != "" {
		pair, err := tls.LoadX509KeyPair(f.Cert, f.Key)
		if err != nil {
			return errors.Join(cli.Misusef("--tls-cert, --tls-key: %w", err), listener.Close())
		}
		scheme, listener = "https", tls.NewListener(listener, &tls.Config{Certificates: []tls.Certificate{pair},
			MinVersion: tls.VersionTLS12, NextProtos: []string{"http/1.1"}})
	}
	if _, err := fmt.Fprintf(out, "%s://%s%s/\n", scheme, listener.Addr(), strings.TrimSuffix(f.Path, "/")); err != nil {
		return errors.Join(err, listener.Close())
	}
	// Streams last as long as their pages, so they have no timeout, and end with ctx.
	return Serve(ctx, listener, &http.Server{
		Handler: h, ReadHeaderTimeout: headerTimeout, IdleTimeout: idleTimeout,
		BaseContext: func(net.Listener) context.Context {
			return ctx
		},
	})
}
