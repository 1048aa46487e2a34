package render

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"slices"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/printable"
)

const (
	// bodyShown is how much of a body a text has, in bytes.
	bodyShown = 4 << 10
	// indented is the largest JSON body that is put on lines of its own.
	indented = 1 << 20
)

// headers has a header a line, and under it the lines of its text if there
// are several, as a stack trace has.
func headers(t amqp.Table) string {
	var b strings.Builder
	for _, name := range slices.Sorted(maps.Keys(t)) {
		text, isText := t[name].(string)
		if isText && strings.Contains(strings.TrimSpace(text), "\n") {
			fmt.Fprintf(&b, "%s:\n  %s\n", term.Shown(name), strings.ReplaceAll(strings.TrimSpace(text), "\n", "\n  "))
			continue
		}
		value, err := json.Marshal(jsonl.Value(t[name]))
		if err != nil {
			value = []byte(err.Error())
		}
		fmt.Fprintf(&b, "%s: %s\n", term.Shown(name), value)
	}
	return b.String()
}

// body prints a body after an empty line, JSON on lines of its own.
func body(w io.Writer, body []byte) error {
	if len(body) == 0 {
		return nil
	}
	text, more := string(body[:min(len(body), bodyShown+1)]), ""
	if len(body) <= indented {
		if pretty, ok := printable.JSON(body, bodyShown+1); ok {
			text = pretty
		}
	}
	if len(text) > bodyShown {
		text, more = text[:bodyShown], "… (all of it: --body)"
	}
	_, err := fmt.Fprintf(w, "\n%s%s\n", term.Printable(text, "\n\t"), more)
	return err
}
