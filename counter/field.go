package counter

import "github.com/strikesmq/strikes/internal/setting"

// A FieldError says which setting is refused; nothing was done with it. Field is its name, such as "Prefix". Value is
// the refused value, as text, never with a password. Want says which values are allowed. errors.As finds it; a retry
// does not help.
type FieldError = setting.FieldError
