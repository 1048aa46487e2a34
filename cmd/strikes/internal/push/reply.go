package push

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/setting"
)

// reply is a response, as far as it decides.
type reply struct {
	status               int
	location, retryAfter string // without secrets
	text                 string // the beginning of the body
}

// judge returns the handler's error for a reply that came now. A gateway says 502 if its server died in the request,
// and 504 if that took too long. After an attempt that is not counted, or that may have crashed the endpoint, the
// message waits for as long as the endpoint asks.
func (r reply) judge(now time.Time) error {
	err := errors.New(r.reason())
	switch r.status {
	case http.StatusConflict, http.StatusGone, http.StatusUnprocessableEntity:
		return consumer.Reject(err)
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		err = consumer.NotCounted(err)
	case http.StatusBadGateway:
		err = consumer.Crashed(err)
	default:
		if r.status >= 200 && r.status < 300 {
			return nil
		}
		return err
	}
	if wait := waitOf(r.retryAfter, now); wait > 0 {
		err = consumer.RetryAfter(err, wait)
	}
	return err
}

// reason is a text that is safe to print.
func (r reply) reason() string {
	out := strings.TrimSpace(fmt.Sprintf("HTTP %d %s", r.status, http.StatusText(r.status)))
	if r.status >= 300 && r.status < 400 {
		out += ", a redirect, which is not followed"
		if r.location != "" {
			out += ", to " + printable.Text(r.location[:min(len(r.location), maxLocation)], "")
		}
	}
	if text := strings.TrimSpace(printable.Text(strings.ToValidUTF8(r.text, "\uFFFD"), "\n\t")); text != "" {
		out += ": " + text
	}
	return out
}

// maxLocation is the longest part of a location that is shown, in bytes.
const maxLocation = 200

// redirect is a location without the parts that may be secret.
func redirect(location string) string {
	if strings.Contains(location, "://") || strings.HasPrefix(location, "//") {
		return setting.RedactURL(location)
	}
	path, _, _ := strings.Cut(location, "?")
	return path
}

// maxWait is the longest wait that an endpoint can ask for.
const maxWait = 5 * time.Minute

// waitOf reads the header Retry-After: seconds, or a date. It returns 0 if that is neither, or over.
func waitOf(header string, now time.Time) time.Duration {
	header = strings.TrimSpace(header)
	if seconds, err := strconv.ParseUint(header, 10, 64); err == nil || errors.Is(err, strconv.ErrRange) {
		return time.Duration(min(seconds, uint64(maxWait/time.Second))) * time.Second
	}
	at, err := http.ParseTime(header)
	if err != nil {
		return 0
	}
	return min(max(at.Sub(now), 0), maxWait)
}

// secretsOf returns the parts of its URL that an endpoint may quote, plain and escaped. A path may be as secret as a
// password.
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

// drain returns the beginning of a body without secrets, and reads the rest as far as needed to use the connection
// again. The secrets are the longest first.
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
