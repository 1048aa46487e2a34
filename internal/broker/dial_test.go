package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
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

// TestUnusableConfig holds that a URL which no retry can fix is a FieldError without its text.
func TestUnusableConfig(t *testing.T) {
	for _, bad := range []string{"", "localhost:5672", "http://localhost", "amqp://user:s3cret%zz@localhost/",
		"amqp://user:s3cret/x@localhost/",
		"amqp://user:98765432109/x@localhost/", "amqp://user:654321/x@localhost/", "amqp://localhost/?heartbeat=s3cret"} {
		_, err := Dial(t.Context(), bad, amqp.Config{})
		var fe *setting.FieldError
		if !errors.As(err, &fe) || strings.Contains(err.Error(), "s3cret") || strings.Contains(err.Error(), "654321") ||
			strings.Contains(err.Error(), "98765432109") {
			t.Errorf("%q: %v", bad, err)
		}
	}
	nothing := amqp.Config{Dial: func(string, string) (net.Conn, error) {
		return nil, nil
	}}
	if _, err := Dial(t.Context(), "amqp://localhost/", nothing); err == nil || !strings.Contains(err.Error(),
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
	_, err := Dial(t.Context(), "amqp://"+listen(t, false)+"/?connection_timeout=50", amqp.Config{})
	if took := time.Since(began); !errors.Is(err, context.DeadlineExceeded) || took > 20*time.Second {
		t.Errorf("after %v: %v", took, err)
	}
}

func TestConnectRefuses(t *testing.T) {
	const odd = "amqp://user:s3cret@host:port/"
	if _, err := amqp.ParseURI(odd); err == nil || !strings.Contains(err.Error(), "s3cret") {
		t.Fatalf("the error of amqp091-go has no password any more, so Connect need not hide it: %v", err)
	}
	down := errors.New("down")
	for name, tc := range map[string]struct {
		dial      func(context.Context) (*amqp.Connection, error)
		want      string
		permanent bool
	}{
		"nothing": {func(context.Context) (*amqp.Connection, error) {
			return nil, nil
		}, "neither a connection nor an error", true},
		"URL": {func(context.Context) (*amqp.Connection, error) {
			_, err := amqp.ParseURI(odd)
			return nil, fmt.Errorf("dialling: %w", err)
		}, "cannot be parsed", true},
		"parameter": {func(ctx context.Context) (*amqp.Connection, error) {
			return Dial(ctx, "amqps://user:s3cret@localhost/?cafile=x", amqp.Config{})
		}, `"cafile"`, true},
		"broker": {func(context.Context) (*amqp.Connection, error) { return nil, down }, "down", false},
	} {
		conn, err := Connect(t.Context(), tc.dial)
		if conn != nil || err == nil || strings.Contains(err.Error(), "s3cret") || !strings.Contains(err.Error(), tc.want) {
			t.Errorf("%s: %v, %v", name, conn, err)
		}
		if Permanent(err, nil) != tc.permanent || tc.permanent == errors.Is(err, down) {
			t.Errorf("%s: permanent must be %v: %v", name, tc.permanent, err)
		}
	}
}

func TestPermanent(t *testing.T) {
	for name, tc := range map[string]struct {
		err, before error
		want        bool
	}{
		"refused setting": {fmt.Errorf("dial: %w", setting.New("URL", "", urlForm)), nil, true},
		"refused twice":   {amqp.ErrCredentials, amqp.ErrCredentials, true},
		"refused once":    {amqp.ErrCredentials, nil, false},
		"lost":            {amqp.ErrClosed, amqp.ErrClosed, false},
	} {
		if got := Permanent(tc.err, tc.before); got != tc.want {
			t.Errorf("%s: %v, want %v", name, got, tc.want)
		}
	}
}

func TestRefusedCountsASilentCloseFromTheSecond(t *testing.T) {
	denied := fmt.Errorf("dial: %w", amqp.ErrCredentials)
	crowded := func(reason string) error {
		return &amqp.Error{Code: amqp.NotAllowed, Server: true, Reason: "NOT_ALLOWED - " + reason}
	}
	tests := map[string]struct {
		err, before error
		want        bool
	}{
		"refused connection":      {io.EOF, io.EOF, false},
		"wrong password, once":    {denied, nil, false},
		"wrong password, twice":   {denied, denied, true},
		"password, EOF, password": {denied, io.EOF, false},
		"password, then vhost":    {amqp.ErrVhost, denied, false},
		"the virtual host is full": {crowded("access to vhost '/' refused for user 'guest': connection limit (1) is reached"),
			nil, false},
		"the user has too many": {crowded("connection refused for user 'guest': user connection limit (1) is reached"), nil,
			false},
		"the broker says so": {&amqp.Error{Code: amqp.NotAllowed, Server: true}, nil, true},
		"the broker said it before": {denied, &amqp.Error{Code: amqp.AccessRefused, Reason: "ACCESS_REFUSED", Server: true},
			false},
		"the broker goes down": {&amqp.Error{Code: amqp.ConnectionForced, Server: true}, nil, false},
		"another error":        {errors.New("x"), errors.New("x"), false},
	}
	for name, tt := range tests {
		if got := Refused(tt.err, tt.before); got != tt.want {
			t.Errorf("%s: %v, want %v", name, got, tt.want)
		}
	}
}

func TestCutShort(t *testing.T) {
	said := &amqp.Error{Code: amqp.AccessRefused, Server: true}
	for _, tt := range []struct {
		err  error
		took time.Duration
		cut  bool
	}{
		{amqp.ErrCredentials, 100 * time.Millisecond, true},
		{fmt.Errorf("dial: %w", amqp.ErrCredentials), time.Second, true},
		{amqp.ErrCredentials, 3 * time.Second, false},
		{amqp.ErrVhost, time.Minute, true},
		{amqp.ErrSASL, 0, false},
		{said, 0, false},
		{io.EOF, 0, false},
	} {
		got := cutShort(tt.err, tt.took)
		//nolint:errorlint // the same
		if cut := errors.Is(got, io.ErrUnexpectedEOF); cut != tt.cut || !cut && got != tt.err || cut && Refused(got, got) {
			t.Errorf("%v after %v: %v", tt.err, tt.took, got)
		}
	}
	if got := cutShort(nil, 0); got != nil {
		t.Error(got)
	}
}

// TestDialNamesTheRemedy: an error of a dial says where, why and what to do, without the password.
func TestDialNamesTheRemedy(t *testing.T) {
	const at = "127.0.0.1:1"
	_, err := Dial(t.Context(), "amqp://u:s3cret@"+at+"/v", amqp.Config{})
	for _, tc := range []struct {
		err  error
		want string
	}{
		{err, " is out of reach: dial tcp " + at + ": connect: connection refused; start it, or correct host and port in " +
			"the URL"},
		{Explain("amqp://u:s3cret@"+at+"/v", amqp.ErrCredentials), `: not authorised: Exception (403) Reason: "username ` +
			`or password not allowed"; correct user, password and virtual host in the URL: ` +
			"amqp://USER:PASSWORD@HOST:PORT/VHOST"},
		{Explain("amqp://u:s3cret@"+at+"/v", &amqp.Error{Code: amqp.NotAllowed, Server: true,
			Reason: "NOT_ALLOWED - vhost connection limit (1) is reached"}), "; close some, or raise the limit of the node, " +
			"virtual host or user"},
		{Explain("amqp://u:s3cret@"+at+"/v", &tls.CertificateVerificationError{Err: io.EOF}), ": its certificate is not " +
			"trusted: tls: failed to verify certificate: EOF; give a file of trusted authorities with the URL's parameter " +
			"cacertfile"},
		{Explain("amqp://u:s3cret@"+at+"/v", &tls.CertificateVerificationError{Err: x509.HostnameError{
			Certificate: &x509.Certificate{}, Host: "h"}}), "; connect to a name that it is for, or give one with the URL's " +
			"parameter server_name_indication"},
	} {
		got := tc.err.Error()
		if !strings.HasPrefix(got, "broker amqp://u:xxxxx@"+at+"/v") || !strings.HasSuffix(got, tc.want) {
			t.Errorf("got %s, want it to end with %s", got, tc.want)
		}
	}
}

// TestMissingVHost: a user without access is told another thing, under the same code of the broker's.
func TestMissingVHost(t *testing.T) {
	for reason, want := range map[string]bool{
		"NOT_ALLOWED - vhost no-such not found":                                  true,
		"NOT_ALLOWED - access to vhost 'no-such' refused for user 'guest'":       false,
		"NOT_ALLOWED - access to vhost 'x' refused for user 'vhost x not found'": false,
		"NOT_ALLOWED - vhost connection limit is reached":                        false,
	} {
		if got := MissingVHost(&amqp.Error{Code: amqp.NotAllowed, Reason: reason, Server: true}); got != want {
			t.Errorf("%s: %v", reason, got)
		}
	}
}

func TestParameters(t *testing.T) {
	for _, good := range []string{
		"amqp://",
		"amqp://u:p@h:1/vhost?heartbeat=5&connection_timeout=100&channel_max=7&auth_mechanism=PLAIN&auth_mechanism=AMQPLAIN",
		"amqps://u:p@h/?cacertfile=ca.pem&certfile=me.pem&keyfile=me.key&server_name_indication=h&verify=verify_peer",
	} {
		if _, err := ParseURL(good); err != nil {
			t.Errorf("%s: %v", good, err)
		}
	}
	for bad, want := range map[string]string{
		"amqps://u:s3cret@h/?cafile=s3cret": "parameter must be one of auth_mechanism, cacertfile, certfile, channel_max, " +
			`connection_timeout, heartbeat, keyfile, server_name_indication, verify, got "cafile"`,
		"amqps://u:s3cret@h/?verify=verify_none":      "parameter verify must be verify_peer",
		"amqps://h/?verify=verify_peer&verify=s3cret": "parameter verify must be verify_peer",
		"amqp://h/?cacertfile=ca.pem":                 `scheme must be amqps with the parameter cacertfile, got "amqp"`,
		"amqp://h/?verify=verify_peer":                "scheme must be amqps",
		"amqps://h/?certfile=me.pem":                  "parameter keyfile must be given with certfile",
		"amqps://h/?keyfile=me.key":                   "parameter certfile must be given with keyfile",
		"": "URL must be amqp[s]://user:password@host:port/vhost, with / @ : ? " +
			"# % in a name or password percent-encoded, got an empty one",
		"amqp://h/?heartbeat=s3cret": "URL must be amqp[s]://",
		"amqp://u:12?s3cret@h/":      "URL must be amqp[s]://",
		"http://u:s3cret@h/":         "URL must be amqp[s]://",
	} {
		_, err := ParseURL(bad)
		var fe *setting.FieldError
		if !errors.As(err, &fe) || !strings.HasPrefix(err.Error(), want) || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: got %v, want %s", bad, err, want)
		}
	}
}

// TestUnanswered: a queue that does not answer is told apart from a message that ends the connection.
func TestUnanswered(t *testing.T) {
	late, soon := time.Now().Add(-5*time.Second), time.Now()
	gaveUp := &amqp.Error{Code: amqp.InternalError, Reason: "INTERNAL_ERROR", Server: true}
	hungUp := &amqp.Error{Code: amqp.ChannelError, Reason: "channel/connection is not open"}
	syntax := &amqp.Error{Code: amqp.FrameError, Reason: amqp.ErrSyntax.Reason}
	for _, tc := range []struct {
		name   string
		closed *amqp.Error
		asked  time.Time
		want   bool
	}{
		{"the broker gives up", gaveUp, late, true},
		{"the client gives up", hungUp, late, true},
		{"a message that the broker cannot convert", gaveUp, soon, false},
		{"a message that the client cannot decode, after a slow store", syntax, late, false},
		{"the queue has answered", gaveUp, time.Time{}, false},
		{"the broker shuts down", &amqp.Error{Code: amqp.ConnectionForced, Server: true}, late, false},
		{"nothing is closed", nil, late, false},
	} {
		if got := Unanswered(tc.closed, tc.asked); got != tc.want {
			t.Errorf("%s: %v, want %v", tc.name, got, tc.want)
		}
	}
}

// TestLongTimeout: a connection_timeout that no time.Duration holds is not over at once.
func TestLongTimeout(t *testing.T) {
	if d, err := timeout("amqp://localhost/?connection_timeout=9223372036854775807"); d < time.Hour || err != nil {
		t.Errorf("%v, %v", d, err)
	}
}
