package topology

import (
	"encoding/json"
	"fmt"

	"github.com/strikesmq/strikes/internal/shell"
)

// console writes the requests that mend a queue, as lines for a shell. The zero
// value, of which no API is known, writes none.
type console struct {
	base string // of the management API
	user string
}

// request returns a curl command line, without data if body is nil; "" if there is no API. Curl asks for the password.
func (c console) request(method string, body any, segments ...string) string {
	content, err := json.Marshal(body)
	data := ""
	if body != nil {
		data = " -H 'content-type: application/json' -d " + shell.Quote(string(content))
	}
	line := fmt.Sprintf("curl -fsS -u %s -X %s%s %s", shell.Quote(c.user), method, data, shell.Quote(c.base+"/api"+escape(segments)))
	if c.base == "" || err != nil {
		return ""
	}
	return line
}
