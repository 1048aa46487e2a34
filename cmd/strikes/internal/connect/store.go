package connect

import (
	"context"
	"errors"
	"fmt"
	"net"
	"time"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/setting"
)

// operatorWait is how long an operator's command waits until the store takes a request, and for its reply. Such a
// command does not repeat its requests.
const operatorWait = 2 * time.Second

// Patient returns the URL of a store with operatorWait as its timeouts for reads and writes, unless the URL sets them.
func Patient(rawURL string) string {
	u, parameters, err := setting.ParseURL(rawURL)
	if err != nil || DatabaseOf(rawURL) != nil {
		return rawURL // dialStore reports its defect
	}
	for _, timeout := range []string{"read_timeout", "write_timeout"} {
		if !parameters.Has(timeout) {
			parameters.Set(timeout, operatorWait.String())
		}
	}
	u.RawQuery = parameters.Encode()
	return u.String()
}

// dialStore opens a store without asking whether it is there. The URL is called so in errors.
func dialStore(rawURL, prefix, called string) (*counter.Counter, error) {
	if database := DatabaseOf(rawURL); database != nil {
		store, err := database.open(rawURL, prefix)
		if err != nil {
			return nil, refusedURL(called, kindStore, err)
		}
		return counter.Over(store, &counter.Options{Prefix: prefix}), nil
	}
	store, err := counter.Dial(rawURL, &counter.Options{Prefix: prefix})
	var field *setting.FieldError
	switch {
	case errors.As(err, &field) && field.Field != "Prefix": // of the URL
		return nil, refusedURL(called, kindStore, field)
	case err != nil:
		return nil, cli.Misuse(err)
	}
	return store, nil
}

// The kinds of servers that a URL may name.
const (
	kindBroker = "broker"
	kindStore  = "store"
)

// givenAs are the variables and flags for the URL of each kind.
var givenAs = map[string]string{
	kindBroker: "AMQP_URL, STRIKES_AMQP_URL or --amqp-url",
	kindStore:  "REDIS_URL, STRIKES_STORE_URL or --store-url",
}

func sourceOf(kind, called string) string {
	if called == "" {
		return "this is the default; name another " + kind + " with " + givenAs[kind]
	}
	return called + " gives this URL"
}

func refusedURL(called, kind string, err error) error {
	var field *setting.FieldError
	switch {
	case !errors.As(err, &field):
	case field.Field == "URL":
		return cli.Misuse(&setting.FieldError{Field: called, Value: field.Value, Want: field.Want})
	case field.Field == "scheme" && kind == kindStore:
		err = &setting.FieldError{Field: field.Field, Value: field.Value, Want: "postgres://, mysql://, " + field.Want}
	}
	return cli.Misusef("%s: %w", called, err)
}

// OpenStore opens a store and makes sure that it answers. If a reply is late or lost, it asks again for operatorWait:
// the store may be well. An error names the source of the URL as called, for example --store-url. Empty means the
// default.
func OpenStore(ctx context.Context, rawURL, prefix, called string) (*counter.Counter, error) {
	store, err := dialStore(rawURL, prefix, called)
	if err != nil {
		return nil, err
	}
	check, cancel := context.WithTimeout(ctx, CheckTimeout)
	defer cancel()
	began := time.Now()
	_, err = store.Check(check)
	for replyLost(err) && time.Since(began) < operatorWait && check.Err() == nil {
		_, err = store.Check(check)
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("store %s: %w", setting.RedactURL(rawURL),
			explainStore(ctx, rawURL, called, err)), store.Close())
	}
	return store, nil
}

// replyLost reports whether a store that was connected sent no reply. One that cannot be connected is not asked again.
func replyLost(err error) bool {
	var failed *counter.StoreError
	var network *net.OpError
	switch {
	case !errors.As(err, &failed):
		return false
	case failed.Fault == counter.FaultUnreachable:
		return !errors.As(err, &network) || network.Op != "dial"
	}
	return failed.Fault == counter.FaultSlow
}

// ExplainStore adds the source of its URL, and the defect if there is one, to the error of a store.
func (f *Flags) ExplainStore(ctx context.Context, err error) error {
	return explainStore(ctx, f.StoreURL, f.called("store-url"), err)
}

func explainStore(ctx context.Context, rawURL, called string, err error) error {
	if ctx.Err() != nil {
		return ctx.Err()
	}
	return fmt.Errorf("%w; %s", storeDefect(ctx, rawURL, err), sourceOf(kindStore, called))
}

// storeDefect adds the defect of its URL, if there is one, to the error of a store.
func storeDefect(ctx context.Context, rawURL string, err error) error {
	var failed *counter.StoreError
	bare := err // without the remedy that the defect replaces
	if errors.As(err, &failed) {
		bare = failed
	}
	switch {
	case untrusted(err):
		return cli.WithCode(fmt.Errorf("its certificate is not trusted: %w; give a file of trusted authorities with the "+
			"environment variable SSL_CERT_FILE", bare), cli.ExitUnreachable)
	case failed != nil && (failed.Fault == counter.FaultDenied || failed.Fault == counter.FaultNotSetUp):
		return err // it names the remedy
	}
	if why := wrongScheme(ctx, rawURL, err); why != "" {
		return cli.Misusef("%s: %w", why, bare)
	}
	return err
}
