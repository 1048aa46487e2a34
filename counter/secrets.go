package counter

import (
	"errors"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/strikesmq/strikes/internal/setting"
)

// passwordOf returns the password of a client, if it has one that can be read.
func passwordOf(rdb redis.UniversalClient) string {
	switch c := rdb.(type) {
	case *redis.Client:
		return c.Options().Password
	case *redis.ClusterClient:
		return c.Options().Password
	}
	return ""
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
		if secret != "" {
			text = setting.Hide(text, secret)
		}
	}
	if text == err.Error() {
		return err
	}
	return redactedError(text)
}
