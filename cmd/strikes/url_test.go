package main

import (
	"context"
	"crypto/tls"
	"encoding/pem"
	"errors"
	"io"
	"net"
	"net/http/httptest"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/topology"
)

// selfSigned makes a self-signed certificate for 127.0.0.1, and a file of it.
func selfSigned(t *testing.T) (cert tls.Certificate, file string) {
	t.Helper()
	s := httptest.NewTLSServer(nil)
	s.Close()
	file = filepath.Join(t.TempDir(), "ca.pem")
	need(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: s.Certificate().Raw}), 0o600))
	return s.TLS.Certificates[0], file
}

// encrypted puts a server behind TLS, and returns the address.
func encrypted(t *testing.T, cert tls.Certificate, server string) string {
	t.Helper()
	l, err := tls.Listen("tcp", "127.0.0.1:0", &tls.Config{Certificates: []tls.Certificate{cert}})
	need(t, err)
	var copies sync.WaitGroup
	t.Cleanup(copies.Wait)
	t.Cleanup(func() { _ = l.Close() })
	copies.Go(func() {
		for {
			front, err := l.Accept()
			if err != nil {
				return
			}
			copies.Go(func() {
				defer front.Close()
				if err := front.(*tls.Conn).HandshakeContext(t.Context()); err != nil {
					return
				}
				back, err := new(net.Dialer).DialContext(context.Background(), "tcp", server)
				if err != nil {
					return
				}
				defer back.Close()
				copies.Go(func() { _, _ = io.Copy(back, front); _ = back.Close() })
				_, _ = io.Copy(front, back)
			})
		}
	})
	return l.Addr().String()
}

func hostOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	need(t, err)
	return u.Host
}

// TestWhereAURLLeads: an error names the defect of a URL, has one exit code for broker and store, and shows no
// password.
func TestWhereAURLLeads(t *testing.T) {
	t.Parallel()
	broker, store := hostOf(t, brokerURL(t)), hostOf(t, storeURL(t))
	cert, ca := selfSigned(t)
	brokerTLS, storeTLS := encrypted(t, cert, broker), encrypted(t, cert, store)
	tests := []struct {
		name     string
		url      string
		exitCode int
		says     string
	}{
		{"no such virtual host", "amqp://guest:guest@" + broker + "/no-such", cli.ExitMisuse,
			`there is no such virtual host: Exception (530) Reason: "NOT_ALLOWED - vhost no-such not found"; correct`},
		{"wrong password", "amqp://guest:hush@" + broker + "/", cli.ExitDenied,
			"; correct user, password and virtual host in the URL: amqp://USER:PASSWORD@HOST:PORT/VHOST; --amqp-url gives"},
		{"certificate, broker", "amqps://guest:hush@" + brokerTLS + "/", cli.ExitUnreachable,
			"its certificate is not trusted: "},
		{"certificate, store", "rediss://:hush@" + storeTLS + "/", cli.ExitUnreachable, "its certificate is not trusted: "},
		{"certificate, known", "amqps://guest:guest@" + brokerTLS + "/?cacertfile=" + url.QueryEscape(ca) +
			"&verify=verify_peer", cli.ExitOK, ""},
		{"no file", "amqps://guest:hush@" + brokerTLS + "/?cacertfile=no-such-file", cli.ExitMisuse,
			"a file that the URL names cannot be used: "},
		{"no TLS, broker", "amqps://guest:hush@" + broker + "/", cli.ExitMisuse,
			"it does not speak TLS: write amqp:// instead of amqps://"},
		{"no TLS, store", "rediss://:hush@" + store + "/", cli.ExitUnreachable,
			"if the store does not speak TLS, write redis in place of rediss in the URL; --store-url gives this URL"},
		{"TLS, broker", "amqp://guest:hush@" + brokerTLS + "/", cli.ExitMisuse,
			"it speaks TLS: write amqps:// instead of amqp://"},
		{"TLS, store", "redis://:hush@" + storeTLS + "/", cli.ExitMisuse,
			"it speaks TLS: write rediss:// instead of redis://"},
		{"Redis for a broker", "amqp://guest:hush@" + store + "/?connection_timeout=500", cli.ExitUnreachable,
			"; start it, or correct host and port in the URL; --amqp-url gives this URL"},
		{"broker for a store", "redis://:hush@" + broker + "/", cli.ExitUnreachable,
			"; start the store, or correct host and port in the URL; --store-url gives this URL"},
		{"broker for PostgreSQL", "postgres://jo:hush@" + broker + "/d", cli.ExitUnreachable,
			"; start the store, or correct host and port in the URL; --store-url gives this URL"},
		{"broker for MySQL", "mysql://jo:hush@" + broker + "/d?connect_timeout=1s", cli.ExitUnreachable,
			"; if the store is up, correct host and port in the URL; --store-url gives this URL"},
		{"Redis for Sentinel", "redis+sentinel://" + store + "?master_name=m", cli.ExitMisuse,
			"; the server is no Sentinel: give the URL the scheme redis or rediss"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			args := []string{"counter", "list", "--store-url", tt.url, "q"}
			if strings.HasPrefix(tt.url, "amqp") {
				queue := "cli.where"
				args = []string{"declare", "--amqp-url", tt.url, queue}
				servertest.DeleteLater(t, queue)
			}
			code, _, errs := called(t, args...)
			if code != tt.exitCode || !strings.Contains(errs, tt.says) || strings.Contains(errs, "hush") {
				t.Errorf("exit code %d, %s", code, errs)
			}
		})
	}
	cmd := exec.CommandContext(t.Context(), "strikes", "counter", "list", "--amqp-url", noBroker,
		"--store-url", servertest.Patient(t, "rediss://"+storeTLS+"/"), "q")
	cmd.Env = append(os.Environ(), "SSL_CERT_FILE="+ca)
	if out, err := cmd.CombinedOutput(); cmd.ProcessState.ExitCode() != cli.ExitNothing {
		t.Errorf("SSL_CERT_FILE: %v, %s", err, out)
	}
}

// TestWithALostConnection: a broker that ends the connection with its refusal is not out of reach.
func TestWithALostConnection(t *testing.T) {
	t.Parallel()
	b, err := connect.NewBroker(brokerURL(t), "test", "--amqp-url")
	need(t, err)
	for want, failed := range map[int]error{cli.ExitUnreachable: errors.New("lost"), cli.ExitMisuse: topology.ErrRefused} {
		err := b.With(t.Context(), func(conn *amqp.Connection) error { return errors.Join(failed, conn.Close()) })
		if cli.ExitCode(err) != want {
			t.Errorf("exit %d: %v", cli.ExitCode(err), err)
		}
	}
}
