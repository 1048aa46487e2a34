package topology

import (
	"encoding/json"
	"fmt"
	"strings"
	"unicode"
)

// console writes the requests that mend a queue, as lines for a shell. The zero
// value, of which no API is known, writes none.
type console struct {
	base string // of the management API
	user string
}

// request returns a curl command line, without data if body is nil; "" if there is no API, or a name would
// not survive a terminal. Curl asks for the password.
func (c console) request(method string, body any, segments ...string) string {
	content, err := json.Marshal(body)
	data := ""
	if body != nil {
		data = " -H 'content-type: application/json' -d " + quoted(string(content))
	}
	line := fmt.Sprintf("curl -fsS -u %s -X %s%s %s", quoted(c.user), method, data, quoted(c.base+"/api"+escape(segments)))
	if c.base == "" || err != nil || strings.ContainsFunc(line, func(r rune) bool { return !unicode.IsPrint(r) }) {
		return ""
	}
	return line
}

// quoted returns a word for a POSIX shell.
func quoted(s string) string { return "'" + strings.ReplaceAll(s, "'", `'\''`) + "'" }
