package console

import (
	"errors"
	"fmt"
	"net/url"
	"slices"
	"strings"
	"time"

	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/internal/reason"
	"github.com/strikesmq/strikes/internal/setting"
)

// filterNames are the conditions of a filter in an address.
var filterNames = []string{"id", "group", "error", "kind", "older", "newer", "origin"}

// besideFilter are the other names in an address with a filter.
var besideFilter = []string{"queue", "after", "of", "rate", "screen", "result"}

// filter picks dead letters, as an address says it.
type filter struct {
	deadletter.Filter
	values url.Values // the conditions that were given, of filterNames
}

// filterOf reads the filter of an address. It refuses a name that it does not know: without that condition the filter
// would pick more.
func filterOf(q url.Values) (f filter, err error) {
	for name := range q {
		if !slices.Contains(filterNames, name) && !slices.Contains(besideFilter, name) {
			return f, formError("dead letters cannot be picked by " + shown(name))
		}
	}
	f.values = url.Values{}
	for _, name := range filterNames {
		if v := strings.TrimSpace(q.Get(name)); v != "" {
			f.values.Set(name, v)
		}
	}
	f.Reason, f.Kind, f.Queue = f.values.Get("error"), deadletter.Kind(f.values.Get("kind")), f.values.Get("origin")
	f.Group = f.values.Get("group")
	if text := q.Get("error"); text != "" && deadletter.Sought(text) == "" {
		return f, formError("the error to look for must have more than blanks and …, got " + shown(text))
	}
	if id := q.Get("id"); id != "" { // as it is: an id may end in a space
		f.IDs = []string{id}
		f.values.Set("id", id)
	}
	if f.Kind != "" && !slices.Contains(deadletter.Kinds(), f.Kind) {
		return f, formError("there is no kind " + shown(string(f.Kind)))
	}
	if f.Group != "" && !reason.IsKey(f.Group) {
		return f, formError("a group is named by its key, as the groups of this page show it, got " + shown(f.Group))
	}
	if f.Older, err = ageOf(f.values.Get("older")); err != nil {
		return f, err
	}
	if f.Newer, err = ageOf(f.values.Get("newer")); err != nil {
		return f, err
	}
	if f.Newer > 0 && f.Newer < f.Older {
		return f, formError("\"died within\" must not be less than \"died before\"")
	}
	return f, nil
}

// ageOf reads 90s, 12h or 7d.
func ageOf(text string) (time.Duration, error) {
	if text == "" {
		return 0, nil
	}
	d, err := setting.ParseAge(text)
	if err != nil || d < 0 {
		return 0, formError("a time must be like 90s, 12h or 7d, got " + shown(text))
	}
	return d, nil
}

// of returns the filter for the dead letters of a queue alone: others may share its dead-letter queue.
func (f filter) of(queue string) deadletter.Filter {
	f.Source = queue
	return f.Filter
}

// Field is a condition for a field of a form. Characters that a browser might obey are escaped.
func (f filter) Field(name string) string { return printable.Text(f.values.Get(name), "") }

// Link is the address of a page with the filter.
func (f filter) Link(page, queue string) string {
	pairs := []string{"queue", queue}
	for _, name := range filterNames {
		pairs = append(pairs, name, f.values.Get(name))
	}
	return link(page, pairs...)
}

// subject is the filter for the audit, from which a page reads it again.
func (f filter) subject() string {
	if f.Everything() {
		return everything
	}
	return f.values.Encode()
}

const everything = "all"

func subjectOf(subject string) (filter, error) {
	if subject == everything {
		subject = ""
	}
	q, err := url.ParseQuery(subject)
	if err != nil {
		return filter{}, fmt.Errorf("the filter of the audit cannot be read: %w", err)
	}
	f, err := filterOf(q)
	if err == nil && !f.Everything() && f.subject() != subject || f.Everything() && subject != "" {
		err = errors.New("the filter of the audit cannot be read: the command wrote it")
	}
	return f, err
}

// Text says which dead letters are meant.
func (f filter) Text() string {
	if f.Everything() {
		return "all dead letters"
	}
	var parts []string
	for _, name := range filterNames {
		if v := f.values.Get(name); v != "" {
			parts = append(parts, map[string]string{
				"id": "with the id ", "group": "of the group ", "error": "whose error contains ", "kind": "of the kind ",
				"older": "that died before the last ", "newer": "that died within the last ", "origin": "that died in ",
			}[name]+shown(v))
		}
	}
	return "dead letters " + strings.Join(parts, ", ")
}
