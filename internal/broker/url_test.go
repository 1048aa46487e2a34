package broker

import (
	"errors"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/setting"
)

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
