package console

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"html/template"
	"io/fs"
	"net/http"
	"net/url"
	"reflect"
	"slices"
	"strings"
	"sync"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/shell"
)

//go:embed templates/*.html
var templateFiles embed.FS

//go:embed static/*
var staticFiles embed.FS

// templates are parsed when the first page is written: most commands serve none.
var templates = sync.OnceValue(func() *template.Template {
	return template.Must(template.New("").Funcs(templateFuncs).ParseFS(templateFiles, "templates/*.html"))
})

var templateFuncs = template.FuncMap{
	"shown": shown, "brief": brief, "why": why, "lines": lines, "rough": printable.Rough, "instant": instant, "link": link,
	"plural": func(n any, thing string) string {
		return plural(number(n), thing)
	}, "digits": func(n any) string { return digits(number(n)) }, "share": share, "atLeast": atLeast,
	"asset": func(name string) string { return "static/" + name + "?v=" + assetVersion() },
	"dict":  dict, "pick": url.QueryEscape, "operands": func(queue string) string { return shell.Operands(queue) },
}

// assetVersion names the content of the static files, so that browsers may keep them.
var assetVersion = sync.OnceValue(func() string {
	sum := sha256.New()
	_ = fs.WalkDir(staticFiles, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		content, err := staticFiles.ReadFile(path)
		sum.Write(content)
		return err
	})
	return hex.EncodeToString(sum.Sum(nil)[:6])
})

// number returns the value of an integer of any type, or of the integer that a pointer points to.
func number(n any) int64 { return reflect.Indirect(reflect.ValueOf(n)).Int() }

// dict makes a map of names and values for a template within another.
func dict(pairs ...any) map[string]any {
	m := map[string]any{}
	for i := 0; i+1 < len(pairs); i += 2 {
		m[fmt.Sprint(pairs[i])] = pairs[i+1]
	}
	return m
}

// share is a part of a whole in percent, enough to be seen.
func share(part, whole int) string {
	return fmt.Sprintf("%.1f", max(1, 100*float64(part)/float64(whole)))
}

// link is the relative URL of a page. All pages are beside each other, so it works below every prefix. The names and
// values of its query follow; an empty value is left out.
func link(page string, query ...string) string {
	q := url.Values{}
	for i := 0; i+1 < len(query); i += 2 {
		if query[i+1] != "" {
			q.Set(query[i], query[i+1])
		}
	}
	page = cmp.Or(page, "./")
	if len(q) == 0 {
		return page
	}
	return page + "?" + q.Encode()
}

type page struct {
	Screen string // the template of its content
	Title  string // the fact
	Queue  string // that it is about; empty: none
	Live   string // URL of its stream; empty: it does not change by itself
	View   any    // of the template
	Wrong  string // with the form that led here: nothing was done
	Why    string // the reason in that form

	Trouble []trouble // servers that could not be asked
	Asking  bool      // the first paint did not wait for the answer
	Result  *result   // of the change that led here
	Code    int       // of HTTP; zero: 200

	Visitor visitor
	VHost   string

	reword func(string) string
}

// Reworded returns findings with the names that their reader gives to settings.
func (p page) Reworded(found []inspect.Finding) []inspect.Finding {
	found = slices.Clone(found)
	for i, f := range found {
		if p.reword != nil {
			found[i].Seen, found[i].Fix = p.reword(f.Seen), p.reword(f.Fix)
		}
	}
	return found
}

// trouble is a server that a page could not ask.
type trouble struct {
	What  string    // "the broker"
	Err   string    //
	Since time.Time // zero: this request
	Old   time.Time // of the older answer that the page shows instead; zero: none
	Lacks string    // the figures that the page lacks; empty: all, or those of Old are shown
	Now   time.Time
}

type visitorKey struct{}

func withVisitor(r *http.Request, v visitor) *http.Request {
	return r.WithContext(context.WithValue(r.Context(), visitorKey{}, v))
}

func visitorOf(r *http.Request) visitor {
	v, _ := r.Context().Value(visitorKey{}).(visitor)
	return v
}

func (c *Console) render(w http.ResponseWriter, r *http.Request, code int, p page) {
	p = c.complete(r, p)
	var out bytes.Buffer
	if err := templates().ExecuteTemplate(&out, "layout", p); err != nil {
		c.opts.Logger.Error("console: page not rendered", "screen", p.Screen, "err", err)
		http.Error(w, "the page could not be rendered; the log says why", http.StatusInternalServerError)
		return
	}
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.WriteHeader(code)
	_, _ = w.Write(out.Bytes()) // a browser that is gone needs no error
}

// refuse shows a form again, and why nothing was done.
func (c *Console) refuse(w http.ResponseWriter, r *http.Request, code int, wrong string,
	form func(*http.Request) (page, error)) error {
	p, err := form(r)
	if err != nil {
		return err
	}
	p.Wrong = wrong
	c.render(w, r, code, p)
	return nil
}

func whyOf(r *http.Request) string { return strings.TrimSpace(r.PostFormValue("why")) }

func (c *Console) complete(r *http.Request, p page) page {
	p.Visitor, p.VHost, p.Why, p.reword = visitorOf(r), c.opts.VHost, whyOf(r), c.opts.Reword
	if id := r.URL.Query().Get("result"); id != "" && p.Result == nil {
		p.Result = c.results.get(id)
		if p.Live != "" {
			p.Live += "&result=" + url.QueryEscape(id)
		}
	}
	return p
}

// content renders the part of a page after the navigation.
func (c *Console) content(r *http.Request, p page) (string, error) {
	var out strings.Builder
	err := templates().ExecuteTemplate(&out, "main", c.complete(r, p))
	return out.String(), err
}

// Content lets the layout include the template of a screen.
func (p page) Content() (template.HTML, error) {
	var out strings.Builder
	if err := templates().ExecuteTemplate(&out, p.Screen, p); err != nil {
		return "", err
	}
	return template.HTML(out.String()), nil //nolint:gosec // html/template escaped it
}

// May reports whether the visitor may use a verb.
func (p page) May(verb Verb) bool { return p.Visitor.Allowed.Has(verb) }

// isLive reports whether a request is of an open page that is brought up to date, and not its first paint.
func isLive(r *http.Request) bool { return r.URL.Path == "/live" }

func fault[T any](a answer[T]) []trouble {
	switch {
	case a.Err != nil:
		what := "the broker"
		if errors.As(a.Err, new(*counter.StoreError)) {
			what = "the store"
		}
		return []trouble{{What: what, Err: shown(a.Err.Error()), Since: a.Since, Old: a.At, Now: time.Now()}}
	case !a.Known:
		return []trouble{{What: "broker and store", Err: "they have not answered yet", Now: time.Now()}}
	}
	return nil
}

func (c *Console) static(w http.ResponseWriter, r *http.Request) {
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		http.Error(w, "only GET", http.StatusMethodNotAllowed)
		return
	}
	if strings.HasSuffix(r.URL.Path, "/") { // no list of files
		http.NotFound(w, r)
		return
	}
	w.Header().Set("Cache-Control", "public, max-age=31536000, immutable")
	http.FileServerFS(staticFiles).ServeHTTP(w, r)
}
