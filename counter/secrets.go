package counter

import (
	"errors"
	"net/url"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/setting"
)

// secretsOf returns the passwords of a client, as far as they can be read.
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

// RedisError makes it a redis.Error, like the server's own.
func (redactedError) RedisError() {}

// echo precedes the arguments of an unknown command in Redis's error. A server without AUTH or HELLO repeats the
// beginning of their arguments, which may contain a part of a password.
const echo = "with args beginning with:"

// withoutSecrets removes passwords from an error of a server. The client's own errors contain none and are returned
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
		text = setting.Hide(text, secret)
	}
	if text == err.Error() {
		return err
	}
	return redactedError(text)
}
