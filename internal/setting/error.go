// Package setting holds the error by which the packages of this module refuse a setting.
package setting

import "fmt"

// Error says which setting is refused, what it was and what it must be. The public packages export it as FieldError.
type Error struct {
	Field string // its name, such as "Prefetch"
	Value string // what it was, as text; never a password
	Want  string // what it must be, such as "1 to 65535, or 0 for the default"
}

// New returns an Error for a value, which must hold no password. A text is quoted.
func New(name string, value any, want string) *Error {
	text := fmt.Sprint(value)
	switch v := value.(type) {
	case nil:
		text = "nil"
	case string:
		text = fmt.Sprintf("%q", v)
	}
	return &Error{Field: name, Value: text, Want: want}
}

func (e *Error) Error() string { return e.Of(e.Field) }

// Of is the error's text for those who know the field by another name, such as that of a flag.
func (e *Error) Of(name string) string { return name + " must be " + e.Want + ", got " + e.Value }
