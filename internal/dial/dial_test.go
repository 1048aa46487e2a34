package dial

import (
	"context"
	"crypto/tls"
	"errors"
	"net"
	"net/url"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// listen accepts connections, and says nothing; or hangs up at once.
func listen(t *testing.T, hangUp bool) (addr string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
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

func TestSilentBroker(t *testing.T) {
	addr := listen(t, false)
	for _, scheme := range []string{"amqp", "amqps"} {
		ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
		defer cancel()
		conn, err := Dial(ctx, scheme+"://guest:s3cret@"+addr, amqp.Config{})
		if conn != nil || !errors.Is(err, context.DeadlineExceeded) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v, %v", scheme, conn, err)
		}
	}
}

func TestBrokerThatHangsUp(t *testing.T) {
	addr := listen(t, true)
	for _, url := range []string{"amqp://" + addr, "amqps://" + addr, "amqps://" + addr + "?certfile=none&keyfile=none"} {
		if conn, err := Dial(t.Context(), url, amqp.Config{}); conn != nil || err == nil {
			t.Errorf("%s: %v, %v", url, conn, err)
		}
	}
}

func TestMalformedURL(t *testing.T) {
	for _, bad := range []string{"amqp://user:s3cret%zz@localhost/", "amqp://user:s3cret/x@localhost/"} {
		_, err := Dial(t.Context(), bad, amqp.Config{})
		var parse *url.Error
		if !errors.As(err, &parse) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%v", err)
		}
	}
}

// TestConfigStaysTheCallers holds that a second dial finds what the first one was given: amqp091-go wipes the password.
func TestConfigStaysTheCallers(t *testing.T) {
	plain, amqplain := &amqp.PlainAuth{Username: "u", Password: "p"}, &amqp.AMQPlainAuth{Username: "u", Password: "p"}
	config := amqp.Config{
		SASL:            []amqp.Authentication{plain, amqplain, &amqp.ExternalAuth{}},
		Properties:      amqp.Table{"product": "x"},
		TLSClientConfig: &tls.Config{MinVersion: tls.VersionTLS13},
	}
	got := own(config)
	if len(got.SASL) != 3 || *got.SASL[0].(*amqp.PlainAuth) != *plain || *got.SASL[1].(*amqp.AMQPlainAuth) != *amqplain || got.TLSClientConfig.MinVersion != tls.VersionTLS13 {
		t.Fatalf("%+v", got)
	}
	got.SASL[0].(*amqp.PlainAuth).Password = ""
	got.SASL[1].(*amqp.AMQPlainAuth).Password = ""
	got.SASL[2] = nil
	got.Properties["product"] = "y"
	got.TLSClientConfig.ServerName = "elsewhere"
	if plain.Password != "p" || amqplain.Password != "p" || config.SASL[2] == nil || config.Properties["product"] != "x" || config.TLSClientConfig.ServerName != "" {
		t.Errorf("changed: %+v", config)
	}
	if empty := own(amqp.Config{}); empty.Properties != nil || empty.TLSClientConfig != nil || empty.SASL != nil {
		t.Errorf("%+v", empty)
	}
}
