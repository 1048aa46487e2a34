package topology

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// ExamineBroker returns what is to be said of the broker whatever the queue. It
// asks nothing: the broker told its version when the connection was opened.
func ExamineBroker(conn *amqp.Connection) []Finding {
	product, _ := conn.Properties["product"].(string)
	release, _ := conn.Properties["version"].(string)
	return supportRule(product, release)
}

// supportRule: RabbitMQ's community supports the latest minor series of the
// latest major one only, by its own rules; that has been 4.3 at least.
func supportRule(product, release string) []Finding {
	v, ok := queueinfo.ParseVersion(release)
	if product != "RabbitMQ" || !ok || !v.Before(4, 3) {
		return nil
	}
	return []Finding{{
		Code: "broker-unsupported", Severity: Warning,
		Seen: "the broker is RabbitMQ " + release,
		Why: fmt.Sprintf("its community has ended the support of RabbitMQ %s: what is found wrong with it, security included, "+
			"is mended for those only who have a vendor's support", v),
		Fix: "upgrade to the latest release, one minor version after the other",
	}}
}
