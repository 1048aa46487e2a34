package topology

import (
	"fmt"
	"strconv"
	"strings"
)

// version is a release of RabbitMQ, as far as its behavior is told apart here.
// The zero version is one that could not be read.
type version struct{ major, minor int }

// parseVersion reads "3.10.8", "4.3.6+2.g0123" or "4.1.0-rc.1".
func parseVersion(s string) (version, bool) {
	major, rest, _ := strings.Cut(s, ".")
	minor, _, _ := strings.Cut(rest, ".")
	a, errMajor := strconv.Atoi(major)
	b, errMinor := strconv.Atoi(minor)
	if errMajor != nil || errMinor != nil || a < 0 || b < 0 {
		return version{}, false
	}
	return version{a, b}, true
}

func (v version) before(major, minor int) bool {
	return v.major < major || v.major == major && v.minor < minor
}

func (v version) String() string {
	if v == (version{}) {
		return "of unknown version"
	}
	return fmt.Sprintf("%d.%d", v.major, v.minor)
}
