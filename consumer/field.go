package consumer

import (
	"fmt"

	"github.com/strikesmq/strikes/internal/setting"
)

// A FieldError says which setting is refused, before anything is done with it. Field is its name, such as "Prefetch", Value
// what it was, as text and never with a password, and Want what it must be. errors.As finds it; trying again changes nothing.
type FieldError = setting.Error

// refused is the error for a field of a consumer of the queue.
func refused(queue, name string, value any, want string) error {
	return fmt.Errorf("consumer: queue %q: %w", queue, setting.New(name, value, want))
}
