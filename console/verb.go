package console

import (
	"fmt"
	"net/http"
	"slices"
	"strings"

	"github.com/strikesmq/strikes/internal/setting"
)

// Verb is something that the console can change.
type Verb string

// The verbs, as Options.Allow and Authorize name them.
const (
	VerbReplay Verb = "replay" // publish dead letters again
	VerbDrop   Verb = "drop"   // move dead letters to a file
	VerbReset  Verb = "reset"  // forget the failed attempts of a message
	VerbSkip   Verb = "skip"   // dead-letter a message at its next step
	VerbLimit  Verb = "limit"  // set or clear the limit of a queue or a message
	VerbPause  Verb = "pause"  // stop the consumers of a queue, or let them go on
)

// Verbs are the changes that a visitor may make; nil: none.
type Verbs []Verb

// AllVerbs returns every verb.
func AllVerbs() Verbs {
	return Verbs{VerbReplay, VerbDrop, VerbReset, VerbSkip, VerbLimit, VerbPause}
}

// ParseVerbs reads verbs that are separated by commas; empty: none. It returns a *FieldError for another word.
func ParseVerbs(text string) (Verbs, error) {
	var verbs Verbs
	for word := range strings.SplitSeq(text, ",") {
		v := Verb(strings.TrimSpace(word))
		if v == "" {
			continue
		}
		if !slices.Contains(AllVerbs(), v) {
			return nil, setting.New("Allow", string(v), "some of "+AllVerbs().String())
		}
		verbs = append(verbs, v)
	}
	return verbs, nil
}

// String returns the verbs, separated by commas.
func (v Verbs) String() string {
	words := make([]string, len(v))
	for i, verb := range v {
		words[i] = string(verb)
	}
	return strings.Join(words, ",")
}

// Has reports whether verb is one of v.
func (v Verbs) Has(verb Verb) bool { return slices.Contains(v, verb) }

func (v Verbs) and(other Verbs) Verbs {
	return slices.DeleteFunc(slices.Clone(v), func(verb Verb) bool { return !other.Has(verb) })
}

func forbidden(verb Verb) error {
	return refusedError{http.StatusForbidden, fmt.Sprintf("you may not use %s here; --allow of the console, or "+
		"Options.Allow and Authorize, names the verbs that are allowed", verb)}
}
