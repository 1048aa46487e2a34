package console

import (
	"crypto/rand"
	"crypto/subtle"
	"errors"
	"maps"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"time"
)

const (
	cookieName = "strikes-console"
	// loginLasts is how long a browser need not give the token again.
	loginLasts = 12 * time.Hour
	// longestName of a person is cut in the audit.
	longestName = 80
)

// visitor is the sender of a request, and their permissions.
type visitor struct {
	Actor   string
	Allowed Verbs
	Login   bool // they logged in with the token
}

// enter lets a visitor in, or shows the login page.
func (c *Console) enter(w http.ResponseWriter, r *http.Request) {
	if r.URL.Path == "/login" && c.opts.Token != "" && c.opts.Authorize == nil {
		c.login(w, r)
		return
	}
	v, err := c.recognise(r)
	switch {
	case err == nil:
		c.mux.ServeHTTP(w, withVisitor(r, v))
	case c.opts.Token != "" && c.opts.Authorize == nil:
		c.askLogin(w, r)
	default:
		c.opts.Logger.Warn("console: request refused", "err", err, "remote", r.RemoteAddr)
		http.Error(w, "not allowed: "+err.Error(), http.StatusForbidden)
	}
}

func (c *Console) recognise(r *http.Request) (visitor, error) {
	switch {
	case c.opts.Authorize != nil:
		actor, allowed, err := c.opts.Authorize(r)
		return visitor{Actor: actor, Allowed: allowed.and(c.opts.Allow)}, err
	case c.opts.Token == "":
		if !fromHere(r) {
			return visitor{}, errOtherMachine
		}
		return visitor{Actor: c.opts.Actor, Allowed: c.opts.Allow}, nil
	}
	if token, bearer := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); bearer {
		if !c.isToken(token) {
			return visitor{}, errToken
		}
		return visitor{Actor: "the holder of the token", Allowed: c.opts.Allow}, nil
	}
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return visitor{}, errNoToken
	}
	name := c.logins.of(cookie.Value)
	if name == "" {
		return visitor{}, errLoggedOut
	}
	return visitor{Actor: name, Allowed: c.opts.Allow, Login: true}, nil
}

var errNoToken = errors.New("the token is missing; log in, or send it as Authorization: Bearer TOKEN")

var errLoggedOut = errors.New("the login has ended")

var errToken = errors.New("the token is wrong")

func (c *Console) isToken(token string) bool {
	return subtle.ConstantTimeCompare([]byte(strings.TrimSpace(token)), []byte(c.opts.Token)) == 1
}

// askLogin leads to the login page. A browser that follows a link of another site sends no SameSite=Strict cookie: then
// the page first loads itself again, which is a request of this site.
func (c *Console) askLogin(w http.ResponseWriter, r *http.Request) {
	switch {
	case r.Method != http.MethodGet || strings.Contains(r.Header.Get("Accept"), "event-stream") || r.URL.Path == "/live":
		http.Error(w, "log in first", http.StatusUnauthorized)
	case r.Header.Get("Sec-Fetch-Site") == "cross-site":
		c.render(w, r, http.StatusOK, page{Screen: "again", Title: "Loading"})
	default:
		next := strings.TrimPrefix(r.URL.Path, "/")
		if r.URL.RawQuery != "" {
			next += "?" + r.URL.RawQuery
		}
		c.showLogin(w, r, http.StatusUnauthorized, loginView{Next: next})
	}
}

type loginView struct{ Next, Name, Wrong string }

func (c *Console) showLogin(w http.ResponseWriter, r *http.Request, code int, v loginView) {
	c.render(w, r, code, page{Screen: "login", Title: "Log in", View: v})
}

// login checks a token and gives the browser a cookie.
func (c *Console) login(w http.ResponseWriter, r *http.Request) {
	v := loginView{Next: cleanNext(r.FormValue("next")), Name: cut(strings.TrimSpace(r.PostFormValue("name")),
		longestName)}
	switch {
	case r.Method != http.MethodPost:
		c.showLogin(w, r, http.StatusOK, v)
		return
	case !c.isToken(r.PostFormValue("token")):
		c.opts.Logger.Warn("console: login with a wrong token", "remote", r.RemoteAddr)
		v.Wrong = "The token is wrong."
		c.showLogin(w, r, http.StatusUnauthorized, v)
		return
	case v.Name == "":
		v.Wrong = "Your name is missing; the audit keeps it with each change."
		c.showLogin(w, r, http.StatusUnprocessableEntity, v)
		return
	}
	// without a path it is for the pages beside this one, whatever a proxy puts before them
	http.SetCookie(w, &http.Cookie{
		Name: cookieName, Value: c.logins.begin(v.Name), HttpOnly: true,
		SameSite: http.SameSiteStrictMode,
		Secure:   r.TLS != nil, MaxAge: int(loginLasts / time.Second),
	})
	goTo(w, v.Next)
}

// logout ends the login of the browser, also on its open pages.
func (c *Console) logout(w http.ResponseWriter, r *http.Request) {
	if cookie, err := r.Cookie(cookieName); err == nil {
		c.logins.end(cookie.Value)
	}
	http.SetCookie(w, &http.Cookie{Name: cookieName, HttpOnly: true, SameSite: http.SameSiteStrictMode,
		Secure: r.TLS != nil, MaxAge: -1})
	goTo(w, "./")
}

// logins has the people who gave the token, by the cookie of their browser. It is forgotten with the Console.
type logins struct {
	mu       sync.Mutex
	byCookie map[string]person
}

type person struct {
	name  string
	until time.Time
}

// begin returns the cookie of a new login. It forgets those that are over.
func (l *logins) begin(name string) (cookie string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	now := time.Now()
	maps.DeleteFunc(l.byCookie, func(_ string, p person) bool { return now.After(p.until) })
	cookie = rand.Text()
	l.byCookie[cookie] = person{name, now.Add(loginLasts)}
	return cookie
}

func (l *logins) end(cookie string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	delete(l.byCookie, cookie)
}

// of returns the name of the person whose browser has a cookie; empty: the login has ended.
func (l *logins) of(cookie string) (name string) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if p := l.byCookie[cookie]; time.Now().Before(p.until) {
		return p.name
	}
	return ""
}

// cleanNext returns a page of the console, or the first.
func cleanNext(next string) string {
	u, err := url.Parse(next)
	if err == nil && u.Path == "" && u.Scheme == "" && u.Host == "" && u.RawQuery != "" {
		return "./?" + u.RawQuery
	}
	if err != nil || u.Scheme != "" || u.Host != "" || u.Path == "" || strings.ContainsAny(u.Path, "/\\:") {
		return "./"
	}
	return next
}

// goTo leads to a page beside this one.
func goTo(w http.ResponseWriter, next string) {
	w.Header().Set("Location", next)
	w.WriteHeader(http.StatusSeeOther)
}
