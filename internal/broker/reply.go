package broker

import (
	"fmt"
	"strconv"
	"strings"
)

// difference is what the broker replies to a declaration that does not match: the first property that differs and the
// value it has.
type difference struct {
	name  string // an argument, or "durable", "auto_delete"
	value any    // nil: the argument is not set
	cut   bool   // the value did not fit into the reply
}

// A reply's text is an AMQP short string. One that does not fit ends in "..."; on 4.0.5 and 4.3.6 it ends the
// connection (541) if it is not all ASCII.
const maxReply = 255

// parseDifference reads the text of a 406 reply to the declaration of a queue. It has the same three forms on 3.10.8,
// 4.0.5 and 4.3.6:
//
//	… received 'classic' but current is 'quorum'
//	… received the value '5' of type 'signedint' but current is none
//	… received none but current is the value '7' of type 'signedint'
func parseDifference(text, vhost, queue string) (difference, bool) {
	_, rest, ok := strings.Cut(text, "inequivalent arg '")
	name, rest, quoted := strings.Cut(rest, "'")
	if !ok || !quoted {
		return difference{}, false
	}
	d := difference{name: name}
	where := fmt.Sprintf(" for queue '%s' in vhost '%s': received ", queue, vhost)
	current, found := "", false
	if rest, ok = strings.CutPrefix(rest, where); ok {
		_, current, found = strings.Cut(rest, " but current is ")
	}
	switch {
	case !found:
		d.cut = strings.HasSuffix(text, "...")
		return d, d.cut
	case current == "none":
		return d, true
	case strings.HasSuffix(text, "..."):
		d.cut = true
		return d, true
	}
	d.value, ok = parseValue(current)
	return d, ok
}

// parseValue reads 'quorum' or the value '7' of type 'signedint'.
func parseValue(s string) (any, bool) {
	typed, isTyped := strings.CutPrefix(s, "the value '")
	if !isTyped {
		bare, quoted := strings.CutPrefix(s, "'")
		bare, closed := strings.CutSuffix(bare, "'")
		return bare, quoted && closed
	}
	// The value may hold anything, the name of its type does not: take the last one.
	i := strings.LastIndex(typed, "' of type '")
	if i < 0 {
		return nil, false
	}
	return typedValue(typed[:i], strings.TrimSuffix(typed[i+len("' of type '"):], "'"))
}

func typedValue(value, kind string) (any, bool) {
	switch kind {
	case "longstr":
		return value, true
	case "bool":
		b, err := strconv.ParseBool(value)
		return b, err == nil
	case "float", "double":
		f, err := strconv.ParseFloat(value, 64)
		return f, err == nil
	}
	// Integers of every width are equal to the broker if their values are.
	n, err := strconv.ParseInt(value, 10, 64)
	return n, err == nil
}

// expressible reports whether the reply to a declaration of the queue fits, so that it is not cut in a name that is not
// ASCII.
func expressible(vhost, queue string) bool {
	const rest = 200 // the longest text around the two names, and room for a value
	return ascii(vhost+queue) || len(vhost)+len(queue)+rest <= maxReply
}
