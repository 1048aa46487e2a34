// Package uri reads URLs that may hold a password. No error of it has a word of a URL, because a password that is not
// percent-encoded may be read as any part of one.
package uri

import (
	"errors"
	"maps"
	"net/url"
	"slices"
	"strconv"
	"strings"

	"github.com/strikesmq/strikes/internal/setting"
)

// ErrUnreadable is returned for a URL that is invalid or ambiguous.
var ErrUnreadable = errors.New("the URL cannot be read: the port is at most 65535, and / @ : ? # % in a name or password are percent-encoded")

// Parse reads a URL with a scheme and its parameters, or returns ErrUnreadable.
func Parse(raw string) (*url.URL, url.Values, error) {
	u, err := url.Parse(raw)
	if err != nil || u.Scheme == "" || u.Opaque != "" || !validPort(u.Port()) || !validUser(raw, u) {
		return nil, nil, ErrUnreadable
	}
	parameters, err := url.ParseQuery(u.RawQuery)
	if err != nil {
		return nil, nil, ErrUnreadable
	}
	return u, parameters, nil
}

// validUser reports whether the one @ that there may be ends the name and the password.
func validUser(raw string, u *url.URL) bool {
	at := strings.Count(raw, "@")
	return at == 0 || at == 1 && u.User != nil
}

func validPort(port string) bool {
	n, err := strconv.ParseUint(port, 10, 16)
	return port == "" || err == nil && n > 0
}

// Redacted returns a URL as it may be shown: without its password and parameters, or not at all.
func Redacted(raw string) string {
	u, _, err := Parse(raw)
	if err != nil {
		return "(a URL that is not shown)"
	}
	shown := url.URL{Scheme: u.Scheme, Host: u.Host, Path: u.Path, RawPath: u.RawPath}
	if _, set := u.User.Password(); set { // redis-cli takes a name without one for the password
		shown.User = url.UserPassword(u.User.Username(), "xxxxx")
	}
	return shown.String()
}

// Unknown returns an error for the first parameter that is not known; nil if all are.
func Unknown(parameters url.Values, known []string) error {
	for _, name := range slices.Sorted(maps.Keys(parameters)) {
		if !slices.Contains(known, name) {
			return setting.New("parameter", name, "one of "+strings.Join(known, ", "))
		}
	}
	return nil
}
