package setting

import (
	"errors"
	"maps"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// ErrURL is returned for a URL that is invalid or ambiguous. It quotes no part of the URL: a password that is not
// percent-encoded may be parsed as any part.
var ErrURL = errors.New("the URL cannot be read: the port is at most 65535, and / @ : ? # % in a name or password " +
	"are percent-encoded")

// ParseURL parses a URL with a scheme, and its parameters. Its error is ErrURL.
func ParseURL(raw string) (*url.URL, url.Values, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" || u.Opaque != "" || !validPort(u.Port()) || !validUser(raw, u) {
		return nil, nil, ErrURL
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, ErrURL
	}
	return u, parameters, nil
}

// validUser reports whether the URL has no @, or one that ends the name and password.
func validUser(raw string, u *url.URL) bool {
	at := strings.Count(raw, "@")
	return at == 0 || at == 1 && u.User != nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// RedactURL returns a URL without its password and parameters, or a fixed text for an invalid one.
func RedactURL(raw string) string {
	if raw == "" {
		return "(none)"
	}
	u, _, err := ParseURL(raw)
	if err != nil {
		return "(a URL that is not shown)"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if _, set := u.User.Password(); set { // redis-cli takes a name without a password for the password
		shown.User = url.UserPassword(u.User.Username(), "xxxxx")
	}
	return shown.String()
}

// surelySecret is the length from which a password is hidden inside a word, too. A shorter one may be part of many
// words.
const surelySecret = 8

// words are the words of a text, and the escapes of quoted ones.
var words = regexp.MustCompile(`\\[a-z]|[\pL\pN_]+`)

// Hide hides a password in a text. It hides a short one that is a word only where it is a whole word.
func Hide(text, password string) string {
	const hidden = "(password)"
	if len(password) >= surelySecret || words.FindString(password) != password {
		return strings.ReplaceAll(text, password, hidden)
	}
	return words.ReplaceAllStringFunc(text, func(word string) string {
		if word == password {
			return hidden
		}
		return word
	})
}

// CheckParameters returns a FieldError for the first parameter that is not known, nil if all are.
func CheckParameters(parameters url.Values, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if !slices.Contains(known, name) {
			return New("parameter", name, "one of "+strings.Join(known, ", "))
		}
	}
	return nil
}
