package main

import (
	"slices"
	"strconv"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
)

// ownSecrets are this program's variables that may hold a password; a command does not inherit them. AMQP_URL and
// REDIS_URL are not this program's own: a command may need them.
var ownSecrets = []string{"STRIKES_AMQP_URL", "STRIKES_REDIS_URL", "STRIKES_MANAGEMENT_URL"}

// environ adds to the environment base what a command learns about its message, and takes away what base says of
// another: this process may be such a command itself. It also takes away ownSecrets. A value with a NUL in it cannot be
// a variable; the names of those are returned.
func environ(base []string, queue string, d amqp.Delivery, a consumer.Attempt) (env, omitted []string) {
	about := [][2]string{
		{"STRIKES_ATTEMPT", strconv.Itoa(a.Number)},
		{"STRIKES_LAST", strconv.Itoa(a.Last)},
		{"STRIKES_MESSAGE_ID", d.MessageId},
		{"STRIKES_QUEUE", queue},
		{"STRIKES_EXCHANGE", d.Exchange},
		{"STRIKES_ROUTING_KEY", d.RoutingKey},
		{"STRIKES_CONTENT_TYPE", d.ContentType},
		{"STRIKES_REDELIVERED", strconv.FormatBool(d.Redelivered)},
		{"STRIKES_TOKEN", a.Token},
		{"STRIKES_FENCE", strconv.FormatInt(a.Fence, 10)},
	}
	env = slices.DeleteFunc(slices.Clone(base), func(v string) bool {
		name, _, _ := strings.Cut(v, "=")
		return slices.Contains(ownSecrets, name) || slices.ContainsFunc(about, func(t [2]string) bool { return t[0] == name })
	})
	for _, t := range about {
		if strings.ContainsRune(t[1], 0) {
			omitted = append(omitted, t[0])
			continue
		}
		env = append(env, t[0]+"="+t[1])
	}
	return env, omitted
}
