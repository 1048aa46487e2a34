package publisher

import "github.com/strikesmq/strikes/internal/setting"

// A FieldError says which setting is refused, before anything is done with it. Field is its name, such as "Window", Value
// what it was, as text and never with a password, and Want what it must be. errors.As finds it; trying again changes nothing.
type FieldError = setting.Error
