package console

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
)

// A FieldError says which setting is refused; nothing was done with it. Field is its name, such as "Hosts". Value is
// the refused value, as text, never with a password. Want says which values are allowed. errors.As finds it; a retry
// does not help.
type FieldError = setting.FieldError

// Options name the servers and queues that a Console shows, and who may use it. Store and Dial must be set. The
// functions must be safe for concurrent use.
type Options struct {
	// Store has the counts; the caller closes it. A reply that takes longer than its read timeout is an error of the
	// page: let it be longer than a consumer's, such as counter.Dial("redis://localhost?read_timeout=2s", nil).
	Store *counter.Counter

	// Dial opens a connection to the broker, with amqp.Config.Recovery nil, such as consumer.Dialer does. The Console
	// closes it.
	Dial func(context.Context) (*amqp.Connection, error)

	VHost string // of the queues; empty: "/"
	// URL of the management API, with user and password; empty: AMQP alone is asked, and Queues must be named
	Management string
	HTTPClient *http.Client // for Management; nil: one that keeps no connections
	Queues     []string     // the queues to show; empty: all that the management API lists

	// Hosts are the names that the Host header of a request may have, without a port; empty: localhost, 127.0.0.1 and ::1.
	// They keep other web sites from reaching the console under a name of theirs.
	Hosts []string

	// Authorize returns the name of the visitor who sends a request, and the verbs that are allowed; an error refuses the
	// request. If nil, a request needs the Token; without a Token it must come from this machine.
	Authorize func(*http.Request) (actor string, allowed Verbs, err error)

	Token string // asked for on a login page if Authorize is nil; 16 bytes at least
	Actor string // the name in the audit when there is no login; empty: "this machine"
	Allow Verbs  // the verbs that visitors may use; Authorize cannot allow more; nil: the console only reads

	// DropDir is the directory of the files that the verb drop writes; empty: there is no drop. New makes and removes a
	// file in it.
	DropDir string
	// Encode returns a dropped dead letter as one line for a file in DropDir, without the line feed; nil: there is no
	// drop. It gets the message as a replay would publish it, and its deadletter.Message.PartitionKey.
	Encode func(m amqp.Publishing, key string) ([]byte, error)

	// FormatBody returns a body as readable text, such as a decoded protobuf. If nil or not ok, the page shows text, JSON
	// or hex.
	FormatBody func(amqp.Publishing) (text string, ok bool)

	// Reword returns the text of a finding with other names for the settings of this library, such as flags; nil: as it is
	Reword func(string) string

	Logger *slog.Logger // gets changes and faults; nil is silent
}

const fewestTokenBytes = 16

func (o Options) withDefaults() Options {
	o.VHost = cmp.Or(o.VHost, "/")
	o.Actor = cmp.Or(o.Actor, "this machine")
	o.Logger = cmp.Or(o.Logger, slog.New(slog.DiscardHandler))
	if len(o.Hosts) == 0 {
		o.Hosts = []string{"localhost", "127.0.0.1", "::1"}
	}
	return o
}

func (o Options) validate() error {
	var err error
	switch {
	case o.Store == nil:
		err = setting.New("Store", nil, "a *counter.Counter")
	case o.Dial == nil:
		err = setting.New("Dial", nil, "a function that returns a new *amqp.Connection")
	case o.Management == "" && len(o.Queues) == 0:
		err = setting.New("Queues", "none", "the names of the queues to show, or Management the URL of the management API, "+
			"which lists them")
	case o.Token != "" && len(o.Token) < fewestTokenBytes:
		err = &setting.FieldError{Field: "Token", Value: "a short one", Want: fmt.Sprintf("%d bytes at least",
			fewestTokenBytes)}
	case slices.ContainsFunc(o.Allow, func(v Verb) bool { return !AllVerbs().Has(v) }):
		err = setting.New("Allow", o.Allow.String(), "some of "+AllVerbs().String())
	case o.DropDir != "":
		var f *os.File
		if f, err = os.CreateTemp(o.DropDir, ".strikes-*"); err != nil {
			err = setting.New("DropDir", o.DropDir, fmt.Sprintf("a directory for new files (%v)", errors.Unwrap(err)))
		} else {
			err = errors.Join(f.Close(), os.Remove(f.Name()))
		}
	}
	if err != nil {
		return fmt.Errorf("console: %w", err)
	}
	return nil
}

// served reports whether a Host header names one of the hosts.
func (o Options) served(host string) bool {
	name, _, err := net.SplitHostPort(host)
	if err != nil {
		name = host
	}
	name = strings.ToLower(strings.Trim(name, "[]"))
	return slices.ContainsFunc(o.Hosts, func(h string) bool { return strings.ToLower(strings.Trim(h, "[]")) == name })
}

// errOtherMachine refuses a request from another machine.
var errOtherMachine = errors.New("without a token the console serves only this machine; give --token-file, or set " +
	"Options.Token")
