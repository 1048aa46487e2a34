package topology

import "github.com/strikesmq/strikes/internal/setting"

// A FieldError says which setting is refused; nothing was done with it. Field is its name, such as "DeliveryLimit".
// Value is what it was, as text, never with a password. Want is what it must be. errors.As finds it; a retry does not
// help.
type FieldError = setting.FieldError
