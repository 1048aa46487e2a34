package consumer

import (
	"fmt"

	"github.com/strikesmq/strikes/internal/setting"
)

// A FieldError says which setting is refused; nothing was done with it. Field is its name, such as "Prefetch". Value
// is the refused value, as text, never with a password. Want says which values are allowed. errors.As finds it; a
// retry does not help.
type FieldError = setting.FieldError

// refused is the error for a field of a consumer of the queue.
func refused(queue, name string, value any, want string) error {
	return fmt.Errorf("consumer: queue %q: %w", queue, setting.New(name, value, want))
}
