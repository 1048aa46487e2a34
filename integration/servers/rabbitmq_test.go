package servers

import (
	"context"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/proctest"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/internal/servertest"
)

func TestRabbitMQKeepsItsDataAndPorts(t *testing.T) {
	servertest.Long(t)
	ownTemp(t)
	for _, name := range []string{"RABBITMQ_NODENAME", "RABBITMQ_NODE_PORT", "RABBITMQ_CONFIG_FILE", "ERL_EPMD_PORT",
		"ERL_FLAGS", "NODENAME"} {
		t.Setenv(name, "not/for us")
	}
	r := servertest.Broker(t, servers.RabbitMQOptions{})
	url := r.URL
	if !regexp.MustCompile(`^\d+\.\d+\.\d+`).MatchString(r.Version) || r.ManagementURL != "" {
		t.Errorf("Version %q, ManagementURL %q", r.Version, r.ManagementURL)
	}

	// Stopped first: 3.10.8 once forgot a queue declared a moment before Kill.
	put(t, r, "q", "kept")
	need(t, r.Stop(t.Context()))
	again(t, r)
	put(t, r, "q", "kept too")
	need(t, r.Kill())
	if conn, err := amqp.Dial(url); err == nil {
		_ = conn.Close()
		t.Error("it answers after Kill")
	}
	again(t, r)
	for _, want := range []string{"kept", "kept too"} {
		if got := take(t, r, "q"); got != want {
			t.Errorf("took %q, want %q", got, want)
		}
	}
	if r.URL != url {
		t.Errorf("URL was %s, is %s", url, r.URL)
	}
}

func TestRabbitMQSideBySide(t *testing.T) {
	servertest.Long(t)
	ownTemp(t)
	a := servertest.Broker(t, servers.RabbitMQOptions{Management: true, Config: "consumer_timeout = 61000"})
	b, err := servers.StartRabbitMQ(t.Context(), servers.RabbitMQOptions{})
	need(t, err)
	put(t, a, "q", "of a")
	put(t, b, "q", "of b")
	if got := take(t, b, "q"); got != "of b" {
		t.Errorf("b held %q", got)
	}
	need(t, b.Close())
	if got := take(t, a, "q"); got != "of a" {
		t.Errorf("a held %q", got)
	}

	res, err := http.Get(a.ManagementURL + "/api/whoami")
	need(t, err)
	_ = res.Body.Close()
	http.DefaultClient.CloseIdleConnections()
	if res.StatusCode != http.StatusOK {
		t.Errorf("the management API answers %s", res.Status)
	}
	out, err := a.Ctl(t.Context(), "eval", "application:get_env(rabbit, consumer_timeout).")
	if err != nil || strings.TrimSpace(out) != "{ok,61000}" {
		t.Errorf("rabbitmqctl printed %q, %v", out, err)
	}
	if _, err := a.Ctl(t.Context(), "no_such_command"); err == nil || !strings.Contains(err.Error(), "no_such_command") {
		t.Errorf("an unknown rabbitmqctl command: %v", err)
	}
	for _, port := range []string{portOf(t, a.URL), portOf(t, a.ManagementURL), strconv.Itoa(a.DistPort()),
		strconv.Itoa(a.MapperPort())} {
		proctest.LoopbackOnly(t, port)
	}
}

func TestRabbitMQPause(t *testing.T) {
	servertest.Long(t)
	ownTemp(t)
	r := servertest.Broker(t, servers.RabbitMQOptions{})
	need(t, r.Pause())
	proctest.Eventually(t, time.Minute, "the broker to stand still", func() bool { // a busy machine stops its threads late
		ctx, cancel := context.WithTimeout(t.Context(), 300*time.Millisecond)
		defer cancel()
		return r.Probe(ctx) != nil
	})
	need(t, r.Resume())
	proctest.Within(t, time.Minute, func() error { return r.Probe(t.Context()) })
	if err := r.Pause(); err != nil { // Close must end a frozen one too
		t.Fatal(err)
	}
}

func TestRabbitMQThatDoesNotStart(t *testing.T) {
	servertest.Long(t)
	broken := t.TempDir()
	script := "#!/bin/sh\necho out of order; exit 3\n"
	for _, name := range []string{"rabbitmq-server", "rabbitmq-env"} {
		need(t, os.WriteFile(filepath.Join(broken, name), []byte(script), 0o755))
	}
	tests := []struct {
		name  string
		path  string // before PATH
		opts  servers.RabbitMQOptions
		limit time.Duration
		want  []string
	}{
		{"script fails", broken, servers.RabbitMQOptions{}, time.Minute, []string{broken, "exit status 3",
			"out of order"}},
		{"bad config", "", servers.RabbitMQOptions{Config: "no.such.key = 1"}, time.Minute,
			[]string{"ended while starting", "no.such.key"}},
		{"no time", "", servers.RabbitMQOptions{}, 500 * time.Millisecond, []string{"does not answer", "deadline exceeded"}},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			ownTemp(t)
			t.Setenv("PATH", tt.path+":"+os.Getenv("PATH"))
			ctx, cancel := context.WithTimeout(t.Context(), tt.limit)
			defer cancel()
			r, err := servers.StartRabbitMQ(ctx, tt.opts)
			if err == nil {
				t.Fatal("it started", r.Close())
			}
			for _, want := range tt.want {
				if !strings.Contains(err.Error(), want) {
					t.Errorf("no %q in: %v", want, err)
				}
			}
		})
	}
}

func portOf(t *testing.T, raw string) string {
	t.Helper()
	u, err := url.Parse(raw)
	need(t, err)
	return u.Port()
}

func again(t *testing.T, r *servers.RabbitMQ) {
	t.Helper()
	need(t, r.Start(t.Context()))
	if err := r.Start(t.Context()); err == nil {
		t.Error("a second Start succeeded")
	}
}

func put(t *testing.T, r *servers.RabbitMQ, queue, body string) {
	t.Helper()
	onChannel(t, r, func(ch *amqp.Channel) error {
		if _, err := ch.QueueDeclare(queue, true, false, false, false, nil); err != nil {
			return err
		}
		if err := ch.Confirm(false); err != nil {
			return err
		}
		msg := amqp.Publishing{DeliveryMode: amqp.Persistent, Body: []byte(body)}
		c, err := ch.PublishWithDeferredConfirmWithContext(t.Context(), "", queue, true, false, msg)
		if err != nil {
			return err
		}
		if acked, err := c.WaitContext(t.Context()); !acked {
			return fmt.Errorf("not confirmed: %w", err)
		}
		return nil
	})
}

func take(t *testing.T, r *servers.RabbitMQ, queue string) (body string) {
	t.Helper()
	onChannel(t, r, func(ch *amqp.Channel) error {
		d, _, err := ch.Get(queue, true)
		body = string(d.Body)
		return err
	})
	return body
}

func onChannel(t *testing.T, r *servers.RabbitMQ, f func(*amqp.Channel) error) {
	t.Helper()
	conn, err := amqp.Dial(r.URL)
	need(t, err)
	defer conn.Close()
	ch, err := conn.Channel()
	need(t, err)
	need(t, f(ch))
}
