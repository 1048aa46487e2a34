package topology

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxName is the length of an AMQP short string, in bytes.
const maxName = 255

// CheckName returns nil for a name that a queue or an exchange can be declared
// by, else what is wrong with it. Declare, Check and what else asks for a queue
// here check its name first: of the broker's answers to such a name one ends
// the connection (501, not UTF-8) and one is about another queue (a line break
// is taken out of the name); measured on 3.10.8 and 4.3.6.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q is not UTF-8, which RabbitMQ asks for", name)
	case strings.ContainsAny(name, "\r\n"):
		return fmt.Errorf("there is a line break in the name %q: RabbitMQ takes it out and means another queue", name)
	case len(name) > maxName:
		return fmt.Errorf("the name %q has %d bytes: AMQP allows %d", name, len(name), maxName)
	}
	return nil
}

// isName is for a name that is derived from another, and may be too long.
func isName(name string) bool { return CheckName(name) == nil }
