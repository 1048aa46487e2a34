package broker

import (
	"encoding/json"
	"fmt"

	"github.com/strikesmq/strikes/internal/shell"
)

// Curl returns a request to the API as a line for a shell, without data if body is nil. The shell reads the password
// from RABBITMQ_PASSWORD: curl would ask for it, and take the next pasted line for the answer. A nil client returns
// an empty line.
func (c *API) Curl(method string, body any, segments ...string) string {
	if c == nil {
		return ""
	}
	data := ""
	if body != nil {
		content, err := json.Marshal(body)
		if err != nil {
			return ""
		}
		data = " -H 'content-type: application/json' -d " + shell.Quote(string(content))
	}
	return fmt.Sprintf(`curl -fsS -u %s:"${RABBITMQ_PASSWORD:?}" -X %s%s %s`, shell.Quote(c.user), method, data,
		shell.Quote(c.base+"/api"+escape(segments)))
}
