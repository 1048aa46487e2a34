package broker

import (
	"context"
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"net"
	"net/url"
	"slices"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/setting"
)

// defaultTimeout bounds a dial, handshake included, unless the URL has a connection_timeout.
const defaultTimeout = 10 * time.Second

// Dial dials once, as consumer.Dialer documents. Together gathers the connection's frames.
func Dial(ctx context.Context, url string, config amqp.Config) (*amqp.Connection, error) {
	within, err := timeout(url)
	if err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(ctx, within)
	defer cancel()
	connect := config.Dial
	if connect == nil {
		connect = func(network, addr string) (net.Conn, error) { return new(net.Dialer).DialContext(ctx, network, addr) }
	}
	hangUp, release := func() {}, func() bool { return true }
	var began time.Time // the handshake
	gathering := &gatheringSocket{}
	config.Dial = func(network, addr string) (net.Conn, error) {
		socket, err := connect(network, addr)
		if err == nil && socket == nil {
			err = errors.New("the Dial of the amqp.Config returned neither a connection nor an error")
		}
		if err != nil {
			return nil, err
		}
		began = time.Now()
		gathering.Conn, socket = socket, gathering
		hangUp = func() { _ = socket.Close() }
		release = context.AfterFunc(ctx, hangUp) // the handshake takes no context
		return socket, nil
	}
	conn, err := amqp.DialConfig(url, clone(config))
	if ended := !release(); err == nil && !ended {
		gathers(conn, gathering)
		return conn, nil
	}
	hangUp() // amqp091-go leaves the socket open after some failures
	if ctx.Err() != nil {
		err = fmt.Errorf("the broker does not answer: %w", ctx.Err()) // replaces the error that closing the socket caused
	}
	return nil, Explain(url, cutShort(err, time.Since(began)))
}

// Explain adds the broker's URL, without the password, and the remedy to the error of a dial or of a lost connection.
func Explain(url string, err error) error {
	var reply *amqp.Error
	does, remedy := " is out of reach", "start it, or correct host and port in the URL"
	switch {
	case MissingVHost(err):
		does, remedy = ": there is no such virtual host", "correct the virtual host at the end of the URL, or run "+
			"rabbitmqctl add_vhost"
	case Denied(err):
		does, remedy = ": not authorised", "correct user, password and virtual host in the URL: "+
			"amqp://USER:PASSWORD@HOST:PORT/VHOST"
	case errors.As(err, &reply) && Crowded(reply):
		does, remedy = " takes no more connections", "close some, or raise the limit of the node, virtual host or user"
	case errors.As(err, new(x509.HostnameError)):
		does, remedy = ": its certificate is for another name", "connect to a name that it is for, or give one with the "+
			"URL's parameter server_name_indication"
	case errors.As(err, new(*tls.CertificateVerificationError)):
		does, remedy = ": its certificate is not trusted", "give a file of trusted authorities with the URL's parameter "+
			"cacertfile"
	case errors.As(err, new(*fs.PathError)):
		does, remedy = ": a file that the URL names cannot be used", "correct its name or its permissions"
	}
	return fmt.Errorf("broker %s%s: %w; %s", setting.RedactURL(url), does, err, remedy)
}

// clone copies the parts of a config that a dial writes to: dials may share them.
func clone(config amqp.Config) amqp.Config {
	config.Properties = maps.Clone(config.Properties)
	config.TLSClientConfig = config.TLSClientConfig.Clone() // nil stays nil
	if config.Recovery != nil {
		recovery := *config.Recovery
		config.Recovery = &recovery // consumer and publisher refuse the connection
	}
	return config
}

// timeout returns how long a dial may take, or an error for an invalid URL.
func timeout(url string) (time.Duration, error) {
	u, err := ParseURL(url)
	if err != nil {
		return 0, err
	}
	if u.ConnectionTimeout > 0 {
		return Milliseconds(int64(u.ConnectionTimeout)), nil
	}
	return defaultTimeout, nil
}

// closeTimeout is how long the broker may take to answer connection.close.
const closeTimeout = time.Second

// errURL refuses a URL that cannot be parsed. It quotes no part of the URL, which may hold a password.
var errURL = &setting.FieldError{Field: "URL", Value: "one that cannot be parsed", Want: urlForm}

// errScheme refuses one that names another protocol, or none.
var errScheme = &setting.FieldError{Field: "URL", Want: urlForm,
	Value: "one without amqp:// or amqps://; for example, write amqp://guest:guest@localhost:5672/"}

// Connect calls a caller's dial function and checks the connection that it returns. The error is a *setting.FieldError
// for a function or URL that will fail again. It contains no URL.
func Connect(ctx context.Context, dial func(context.Context) (*amqp.Connection, error)) (*amqp.Connection, error) {
	began := time.Now()
	conn, err := dial(ctx)
	err = cutShort(err, time.Since(began))
	var parsing *url.Error
	switch {
	case errors.As(err, &parsing): // it quotes the URL with the password
		err = errURL
	case err == nil && conn == nil:
		return nil, &setting.FieldError{Field: "dial", Value: "neither a connection nor an error",
			Want: "a function that returns one of them"}
	case err == nil && ctx.Err() != nil:
		err = ctx.Err()
	case err == nil && conn.Config.Recovery != nil:
		err = &setting.FieldError{Field: "amqp.Config.Recovery", Value: "a value: automatic recovery restarts delivery " +
			"tags and confirms", Want: "nil"}
	}
	if err != nil && conn != nil { // amqp.Dial returns the connection of a failed handshake
		HangUp(conn)
	}
	if err != nil {
		return nil, err
	}
	return conn, nil
}

// HangUp closes a connection within a second. It returns no error: that would only say that the connection is lost
// already.
func HangUp(conn *amqp.Connection) { HangUpWithin(conn, closeTimeout) }

// HangUpWithin is HangUp with another time. The broker does not confirm the end of a connection while a queue does not
// answer, and each heartbeat puts off the deadline of amqp091 (4.3.6): then HangUpWithin leaves the connection closing.
func HangUpWithin(conn *amqp.Connection, d time.Duration) {
	closed := make(chan struct{})
	go func() {
		defer close(closed)
		_ = conn.CloseDeadline(time.Now().Add(d))
	}()
	late := time.NewTimer(d)
	defer late.Stop()
	select {
	case <-closed:
	case <-late.C:
	}
}

// Permanent reports whether another dial would fail too: a setting is refused, or the broker refuses. before is the
// error of the previous dial.
func Permanent(err, before error) bool {
	var refused *setting.FieldError
	return errors.As(err, &refused) || Refused(err, before)
}

// Refused reports whether the broker refused the connection; before is the error of the previous dial. RabbitMQ
// closes the connection after a wrong password, without a reason. So the second such error in a row counts as a
// refusal. Connect and Dial have already excluded a socket that was cut.
func Refused(err, before error) bool {
	var refusal, earlier *amqp.Error
	return Denied(err) && errors.As(err, &refusal) &&
		(refusal.Server || errors.As(before, &earlier) && *earlier == *refusal)
}

// Denied reports whether the broker refused the user. amqp091-go does not ask it to say so of a wrong password:
// RabbitMQ then closes the socket, as one that is just starting may do as well.
func Denied(err error) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && (reply.Code == amqp.AccessRefused || reply.Code == amqp.NotAllowed) &&
		*reply != *amqp.ErrVhost && !Crowded(reply)
}

// MissingVHost reports whether the broker has no virtual host of the URL's name. A user without access to one gets the
// same code.
func MissingVHost(err error) bool {
	var reply *amqp.Error
	return errors.As(err, &reply) && reply.Server && reply.Code == amqp.NotAllowed &&
		strings.HasPrefix(reply.Reason, "NOT_ALLOWED - vhost ") && strings.HasSuffix(reply.Reason, " not found")
}

// Crowded reports whether the broker refused a connection because the node, the virtual host or the user has as many as
// it may have. That passes: the broker counts a lost connection until it misses its heartbeats. The reason has this
// form on 3.10.8, 4.0.5 and 4.3.6.
func Crowded(reply *amqp.Error) bool {
	return reply.Code == amqp.NotAllowed && strings.Contains(reply.Reason, "connection limit (")
}

// silentRefusal is how long a handshake lasts at least that RabbitMQ refuses without a word: it waits 3 s before it
// closes the socket (SILENT_CLOSE_DELAY; measured on 3.10.8 and 4.3.6).
const silentRefusal = 2 * time.Second

// cutShort returns the error of a dial that took so long. amqp091-go reports ErrCredentials, or ErrVhost, also if the
// socket closes in that step of the handshake. Such an error says that the connection was cut, not that the broker
// refused, if it came too soon, or if the broker would have given a reason.
func cutShort(err error, took time.Duration) error {
	var refusal *amqp.Error
	if errors.As(err, &refusal) && (*refusal == *amqp.ErrVhost || *refusal == *amqp.ErrCredentials &&
		took < silentRefusal) {
		return errCut
	}
	return err
}

var errCut = fmt.Errorf("the connection was closed in the handshake, too soon for a refusal: %w", io.ErrUnexpectedEOF)

// urlForm describes the URL of a broker.
const urlForm = "amqp[s]://user:password@host:port/vhost, with / @ : ? # % in a name or password percent-encoded"

// parameters are RabbitMQ's URI query parameters that amqp091-go obeys. It ignores others.
var parameters = []string{
	"auth_mechanism", "cacertfile", "certfile", "channel_max", "connection_timeout", "heartbeat", "keyfile",
	"server_name_indication", "verify",
}

// ParseURL parses the URL of a broker. Its error is a *setting.FieldError that quotes only the scheme or the name of a
// parameter: any other part may hold a piece of a password.
func ParseURL(raw string) (amqp.URI, error) {
	if raw == "" {
		return amqp.URI{}, &setting.FieldError{Field: "URL", Value: "an empty one", Want: urlForm}
	}
	if scheme, _, _ := strings.Cut(strings.ToLower(raw), "://"); scheme != "amqp" && scheme != "amqps" {
		return amqp.URI{}, errScheme
	}
	_, given, err := setting.ParseURL(raw)
	if err != nil {
		return amqp.URI{}, errURL
	}
	if err := setting.CheckParameters(given, parameters); err != nil {
		return amqp.URI{}, err
	}
	u, err := amqp.ParseURI(raw)
	if err != nil || u.Port < 1 || u.Port > 65535 {
		return amqp.URI{}, errURL
	}
	return u, checkEncryption(u, given)
}

// checkEncryption refuses parameters that ask for more safety than the connection would have.
func checkEncryption(u amqp.URI, given url.Values) error {
	for _, name := range []string{"cacertfile", "certfile", "keyfile", "server_name_indication", "verify"} {
		if given.Has(name) && u.Scheme != "amqps" {
			return setting.New("scheme", u.Scheme, fmt.Sprintf("amqps with the parameter %s", name))
		}
	}
	switch {
	case slices.ContainsFunc(given["verify"], func(v string) bool { return v != "verify_peer" }):
		return &setting.FieldError{Field: "parameter verify", Value: "another",
			Want: "verify_peer, because certificates are always verified (cacertfile names an authority to trust)"}
	case u.CertFile != "" && u.KeyFile == "":
		return setting.New("parameter keyfile", "", "given with certfile")
	case u.KeyFile != "" && u.CertFile == "":
		return setting.New("parameter certfile", "", "given with keyfile")
	}
	return nil
}
