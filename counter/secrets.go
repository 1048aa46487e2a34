package counter

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
)

// secretsOf returns the passwords of a client that can be read.
func secretsOf(rdb redis.UniversalClient) []string {
	var found []string
	switch c := rdb.(type) {
	case *redis.Client:
		if c != nil {
			found = []string{c.Options().Password}
		}
	case *redis.ClusterClient:
		if c != nil {
			found = []string{c.Options().Password}
		}
	}
	return slices.DeleteFunc(found, func(s string) bool { return s == "" })
}

// secretsIn returns the passwords of a URL.
func secretsIn(rawURL string) []string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return nil
	}
	found := []string{u.Query().Get("password"), u.Query().Get("sentinel_password")}
	if set, ok := u.User.Password(); ok {
		found = append(found, set)
	}
	return slices.DeleteFunc(found, func(s string) bool { return s == "" })
}

// redactedError is a server's error without passwords.
type redactedError string

func (e redactedError) Error() string { return string(e) }

// RedisError makes it a redis.Error, as the server's own.
func (redactedError) RedisError() {}

// echo is what Redis puts before the arguments of a command that it does not know. A server without AUTH or HELLO repeats their
// arguments, cut short, so that a part of a password may be among them.
const echo = "with args beginning with:"

// withoutSecrets removes passwords from an error of a server. The client's own errors never hold one, and are returned
// unchanged.
func withoutSecrets(err error, secrets []string) error {
	var reply redis.Error
	if !errors.As(err, &reply) && !strings.HasPrefix(err.Error(), "redis: ") {
		return err
	}
	text, _, echoed := strings.Cut(err.Error(), echo)
	if echoed {
		text += "with arguments that are not shown"
	}
	for _, secret := range secrets {
		text = strings.ReplaceAll(text, secret, "(password)")
	}
	if text == err.Error() {
		return err
	}
	return redactedError(text)
}
