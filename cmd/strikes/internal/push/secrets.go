package push

import (
	"cmp"
	"io"
	"net/url"
	"slices"
	"strings"
)

// secretsOf returns what an endpoint may quote of its URL, plain and escaped. A path may be as secret as a password.
func secretsOf(u *url.URL) []string {
	secrets := []string{u.RequestURI(), u.RawQuery}
	if query, err := url.QueryUnescape(u.RawQuery); err == nil {
		secrets = append(secrets, query)
	}
	for _, path := range []string{u.Path, u.EscapedPath()} {
		secrets = append(secrets, path, url.QueryEscape(path))
	}
	secrets = slices.DeleteFunc(secrets, func(s string) bool { return s == "/" || s == url.QueryEscape("/") })
	if password, set := u.User.Password(); set {
		_, escaped, _ := strings.Cut(u.User.String(), ":")
		secrets = append(secrets, password, escaped, url.QueryEscape(password), url.PathEscape(password))
	}
	return secrets
}

// longestFirst is an order to hide secrets in: one may be a part of another.
func longestFirst(secrets []string) []string {
	secrets = slices.DeleteFunc(slices.Clone(secrets), func(s string) bool { return s == "" })
	slices.SortFunc(secrets, func(a, b string) int { return cmp.Or(cmp.Compare(len(b), len(a)), strings.Compare(a, b)) })
	return slices.Compact(secrets)
}

// drain returns the beginning of a body without secrets, and reads what a connection can be used again for. The secrets
// are the longest first.
func drain(body io.Reader, secrets []string) string {
	limit := maxReason
	if len(secrets) > 0 {
		limit += len(secrets[0]) // one that begins in the reason is read as a whole
	}
	raw, err := io.ReadAll(io.LimitReader(body, int64(limit)))
	if err == nil {
		// more is not worth it: the connection is closed
		_, _ = io.CopyN(io.Discard, body, int64(max(0, maxReason+maxDrained-len(raw))))
	}
	text := hide(string(raw), secrets)
	if err != nil || len(raw) == limit {
		text = text[:len(text)-begun(text, secrets)]
	}
	return text[:min(len(text), maxReason)]
}

// hide replaces secrets in a text.
func hide(text string, secrets []string) string {
	for _, s := range secrets {
		text = strings.ReplaceAll(text, s, "xxxxx")
	}
	return text
}

// begun returns the length of the longest beginning of a secret that a text ends with.
func begun(text string, secrets []string) (longest int) {
	for _, s := range secrets {
		for n := min(len(s), len(text)); n > longest; n-- {
			if strings.HasSuffix(text, s[:n]) {
				longest = n
			}
		}
	}
	return longest
}
