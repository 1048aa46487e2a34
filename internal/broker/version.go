package broker

import (
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Version is a release of RabbitMQ, as far as its behavior differs. The zero version could not be read.
type Version struct{ Major, Minor int }

// VersionOf is the version of the broker that a connection leads to.
func VersionOf(conn *amqp.Connection) Version {
	release, _ := conn.Properties["version"].(string)
	v, _ := ParseVersion(release)
	return v
}

// ParseVersion reads "3.10.8", "4.3.6+2.g0123" or "4.1.0-rc.1".
func ParseVersion(s string) (Version, bool) {
	var v Version
	if _, err := fmt.Sscanf(s, "%d.%d", &v.Major, &v.Minor); err != nil || v.Major < 0 || v.Minor < 0 {
		return Version{}, false
	}
	return v, true
}

// Before reports whether the version is older than major.minor.
func (v Version) Before(major, minor int) bool {
	return v.Major < major || v.Major == major && v.Minor < minor
}

// String is "4.3", or "of unknown version".
func (v Version) String() string {
	if v == (Version{}) {
		return "of unknown version"
	}
	return fmt.Sprintf("%d.%d", v.Major, v.Minor)
}
