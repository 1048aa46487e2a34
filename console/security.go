package console

import (
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"strings"
)

// policy lets a page load and call only addresses of the console.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'; img-src 'self'; " +
	"form-action 'self'; " +
	"base-uri 'none'; frame-ancestors 'none'"

func setHeaders(h http.Header) {
	h.Set("Content-Security-Policy", policy)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("X-Frame-Options", "DENY")
	h.Set("Referrer-Policy", "same-origin") // with no-referrer, forms over plain HTTP have Origin: null
	h.Set("Cross-Origin-Opener-Policy", "same-origin")
	h.Set("Cross-Origin-Resource-Policy", "same-origin")
	h.Set("Cache-Control", "no-store")
}

// admit returns why a request is refused before its visitor is known: its Host is not served, or another site made it.
func (c *Console) admit(r *http.Request) error {
	if !c.opts.served(r.Host) {
		return fmt.Errorf("the console does not serve the host %q; --host, or Options.Hosts, names those that it serves",
			r.Host)
	}
	if err := c.guard.Check(r); err != nil {
		return err
	}
	// A person may follow a link of another site. A frame, an image or a script of that site is refused.
	followed := r.Method == http.MethodGet && r.Header.Get("Sec-Fetch-Mode") == "navigate" &&
		r.Header.Get("Sec-Fetch-Dest") == "document"
	switch site := r.Header.Get("Sec-Fetch-Site"); {
	case site == "same-origin", site == "none": // the browser vouches
		return nil
	case site != "" && !followed:
		return errors.New("the request comes from another site")
	case site == "" && !sameHost(r.Header.Get("Origin"), r.Host):
		return fmt.Errorf("the request comes from another site, %q", r.Header.Get("Origin"))
	}
	return nil
}

// sameHost reports whether an Origin is absent, or that of the host.
func sameHost(origin, host string) bool {
	if origin == "" {
		return true
	}
	u, err := url.Parse(origin)
	return err == nil && strings.EqualFold(u.Host, host)
}

// Guard serves next, such as metrics beside the pages, to visitors whom the Console lets in. With a Token they must
// send "Authorization: Bearer TOKEN", or be logged in. It refuses other requests with status 403.
func (c *Console) Guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		err := c.admit(r)
		if err == nil {
			_, err = c.recognise(r)
		}
		if err != nil {
			http.Error(w, "not allowed: "+err.Error(), http.StatusForbidden)
			return
		}
		next.ServeHTTP(w, r)
	})
}

func fromHere(r *http.Request) bool {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	return err == nil && net.ParseIP(host).IsLoopback()
}
