package broker

import (
	"fmt"
	"net/url"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/setting"
)

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
