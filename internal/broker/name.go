package broker

import (
	"errors"
	"fmt"
	"strings"
	"unicode/utf8"
)

// maxName is the length of an AMQP short string, in bytes.
const maxName = 255

// CheckName returns nil for a name that a queue or an exchange can be declared with, else what is wrong with it. Check
// a name before the broker is asked about it: a name that is not UTF-8 ends the connection (501), and a line break is
// removed, so that the answer is about another queue. Measured on 3.10.8 and 4.3.6.
func CheckName(name string) error {
	switch {
	case name == "":
		return errors.New("the name is empty")
	case !utf8.ValidString(name):
		return fmt.Errorf("the name %q is not UTF-8, which RabbitMQ requires", name)
	case strings.ContainsAny(name, "\r\n"):
		return fmt.Errorf("the name %q has a line break: RabbitMQ removes it and means another queue", name)
	case len(name) > maxName:
		return fmt.Errorf("the name %q has %d bytes: AMQP allows %d", name, len(name), maxName)
	}
	return nil
}
