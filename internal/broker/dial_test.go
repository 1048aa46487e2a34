package broker

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
	"go.uber.org/goleak"

	"github.com/strikesmq/strikes/internal/servertest"
	"github.com/strikesmq/strikes/internal/setting"
)

var need = servertest.Need

// listen accepts connections and sends nothing, or hangs up immediately.
func listen(t *testing.T, hangUp bool) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	need(t, err)
	ended := make(chan struct{})
	t.Cleanup(func() {
		_ = listener.Close()
		<-ended
	})
	go func() {
		defer close(ended)
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			if hangUp {
				_ = conn.Close()
			} else {
				defer conn.Close()
			}
		}
	}()
	return listener.Addr().String()
}

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestSilentBroker(t *testing.T) {
	addr := listen(t, false)
	for _, scheme := range []string{"amqp", "amqps"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		conn, err := Dial(ctx, scheme+"://guest:s3cret@"+addr, amqp.Config{}, nil)
		if conn != nil || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, %v", scheme, conn, err)
		}
	}
}

func TestBrokerThatHangsUp(t *testing.T) {
	addr := listen(t, true)
	for _, url := range []string{"amqp://" + addr, "amqps://" + addr, "amqps://" + addr + "?certfile=none&keyfile=none"} {
		if conn, err := Dial(t.Context(), url, amqp.Config{}, nil); conn != nil || err == nil {
			t.Errorf("%s: %v, %v", url, conn, err)
		}
	}
}

// TestUnusableConfig holds that a URL which no retry can fix is a FieldError without its text.
func TestUnusableConfig(t *testing.T) {
	for _, bad := range []string{"", "localhost:5672", "http://localhost", "amqp://user:s3cret%zz@localhost/",
		"amqp://user:s3cret/x@localhost/",
		"amqp://user:98765432109/x@localhost/", "amqp://user:654321/x@localhost/", "amqp://localhost/?heartbeat=s3cret"} {
		_, err := Dial(t.Context(), bad, amqp.Config{}, nil)
		var fe *setting.FieldError
		if !errors.As(err, &fe) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "654321") ||
			strings.Contains(err.Error(), "98765432109") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	nothing := amqp.Config{Dial: func(string, string) (net.Conn, error) {
		return nil, nil
	}} //nolint:nilnil // that is the point
	if _, err := Dial(t.Context(), "amqp://localhost/", nothing, nil); err == nil || !strings.Contains(err.Error(),
		"neither") {
		t.Errorf("a Dial that returns nothing: %v", err)
	}
}

// TestConfigStaysTheCallers checks that concurrent dials do not write to the config that they share.
func TestConfigStaysTheCallers(t *testing.T) {
	config := amqp.Config{Properties: amqp.Table{"product": "x"},
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13}, Recovery: &amqp.Recovery{}}
	got := clone(config)
	if got.Properties["product"] != "x" || got.TLSClientConfig.MinVersion != tls.VersionTLS13 || got.Recovery == nil {
		t.Fatalf("%+v", got)
	}
	got.Properties["product"], got.TLSClientConfig.ServerName, got.Recovery.TopologyRecovery = "y",
		"elsewhere", &amqp.DefaultTopologyRecovery{}
	if config.Properties["product"] != "x" || config.TLSClientConfig.ServerName != "" ||
		config.Recovery.TopologyRecovery != nil {
		t.Errorf("changed: %+v", config)
	}
	if empty := clone(amqp.Config{}); empty.Properties != nil || empty.TLSClientConfig != nil || empty.Recovery != nil {
		t.Errorf("%+v", empty)
	}
}

// TestConnectionTimeout holds that the URL may set another timeout.
func TestConnectionTimeout(t *testing.T) {
	began := time.Now()
	_, err := Dial(t.Context(), "amqp://"+listen(t, false)+"/?connection_timeout=50", amqp.Config{}, nil)
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 20*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}
