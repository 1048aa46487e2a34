package dial

import (
	"fmt"
	"net/url"
	"slices"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/setting"
	"github.com/strikesmq/strikes/internal/uri"
)

// Form says what a broker's URL is.
const Form = "amqp[s]://user:password@host:port/vhost, with / @ : ? # % in a name or password percent-encoded"

// Parameters are those of RabbitMQ's URI query parameters that amqp091-go obeys; it would ignore others.
var Parameters = []string{
	"auth_mechanism", "cacertfile", "certfile", "channel_max", "connection_timeout", "heartbeat", "keyfile",
	"server_name_indication", "verify",
}

// Parse reads the URL of a broker. Its error is a *setting.Error, which quotes only the scheme or the name of a parameter: any
// other part may hold a piece of a password.
func Parse(raw string) (amqp.URI, error) {
	unreadable := &setting.Error{Field: "URL", Value: "one that cannot be read", Want: Form}
	_, parameters, err := uri.Parse(raw)
	if err != nil {
		return amqp.URI{}, unreadable
	}
	if err := uri.Unknown(parameters, Parameters); err != nil {
		return amqp.URI{}, err
	}
	u, err := amqp.ParseURI(raw)
	if err != nil || u.Port < 1 || u.Port > 65535 {
		return amqp.URI{}, unreadable
	}
	return u, encryption(u, parameters)
}

// encryption refuses parameters that would leave a connection less safe than they ask for.
func encryption(u amqp.URI, parameters url.Values) error {
	for _, name := range []string{"cacertfile", "certfile", "keyfile", "server_name_indication", "verify"} {
		if parameters.Has(name) && u.Scheme != "amqps" {
			return setting.New("scheme", u.Scheme, fmt.Sprintf("amqps with the parameter %s", name))
		}
	}
	switch {
	case slices.ContainsFunc(parameters["verify"], func(v string) bool { return v != "verify_peer" }):
		return &setting.Error{Field: "parameter verify", Value: "another", Want: "verify_peer, because certificates are always verified (cacertfile names an authority to trust)"}
	case u.CertFile != "" && u.KeyFile == "":
		return setting.New("parameter keyfile", "", "given with certfile")
	case u.KeyFile != "" && u.CertFile == "":
		return setting.New("parameter certfile", "", "given with keyfile")
	}
	return nil
}
