// Package setting judges settings: it holds the error that refuses one, and reads URLs without quoting their passwords.
package setting

import "fmt"

// A FieldError names the refused setting, its value and the allowed values. The public packages export it.
type FieldError struct {
	Field string // such as "Prefetch"
	Value string // as text; never a password
	Want  string // such as "1 to 65535, or 0 for the default"
}

// New returns a FieldError for a value, which must hold no password. A string is quoted.
func New(field string, value any, want string) *FieldError {
	text := fmt.Sprint(value)
	switch v := value.(type) {
	case nil:
		text = "nil"
	case string:
		text = fmt.Sprintf("%q", v)
	}
	return &FieldError{Field: field, Value: text, Want: want}
}

func (e *FieldError) Error() string { return e.Of(e.Field) }

// Of returns the text of the error with another name for the field, such as that of a flag.
func (e *FieldError) Of(name string) string { return name + " must be " + e.Want + ", got " + e.Value }
