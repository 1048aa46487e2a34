package counter

import (
	"errors"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"github.com/redis/go-redis/v9"
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
		text = withoutSecret(text, secret)
	}
	if text == err.Error() {
		return err
	}
	return redactedError(text)
}

// surelySecret is from which length on a password is hidden inside a word, too: a shorter one may be a part of many.
const surelySecret = 4

var words = regexp.MustCompile(`[\pL\pN]+`)

// withoutSecret hides a password in a text; a short word only where it is a whole one.
func withoutSecret(text, secret string) string {
	const hidden = "(password)"
	if len(secret) >= surelySecret || words.FindString(secret) != secret {
		return strings.ReplaceAll(text, secret, hidden)
	}
	return words.ReplaceAllStringFunc(text, func(word string) string {
		if word == secret {
			return hidden
		}
		return word
	})
}
