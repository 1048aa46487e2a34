package integration

import (
	"context"
	"encoding/json"
	"io"
	"net/http"
	"net/url"
	"strings"
	"testing"
	"time"
)

// cut makes the broker close the connections of a name, and reports whether there were any.
func cut(t *testing.T, name string) bool {
	t.Helper()
	var open []struct {
		Name       string
		Properties struct {
			Name string `json:"connection_name"`
		} `json:"client_properties"`
	}
	if err := json.Unmarshal(manage(t, http.MethodGet, "/api/connections", ""), &open); err != nil {
		t.Fatalf("connections: %v", err)
	}
	found := false
	for _, c := range open {
		if c.Properties.Name != name {
			continue
		}
		status, answer := managed(t.Context(), t, http.MethodDelete, "/api/connections/"+url.PathEscape(c.Name), "")
		switch {
		case status == http.StatusNotFound: // it ended after the list was made
		case status < http.StatusMultipleChoices:
			found = true
		default:
			t.Fatalf("closing the connection %q: %d, %s", c.Name, status, answer)
		}
	}
	return found
}

// manage makes a request of the management API, also while a test is cleaned up. It asks again after an error of the
// API's own: 3.10 has no list of the connections while one of them goes (500).
func manage(t *testing.T, method, path, body string) []byte {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	for {
		status, answer := managed(ctx, t, method, path, body)
		switch {
		case status < http.StatusMultipleChoices:
			return answer
		case status < http.StatusInternalServerError || ctx.Err() != nil:
			t.Fatalf("%s %s: %d, %s", method, path, status, answer)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// userWho makes a user with these permissions until the test ends, and returns the URL with which it connects.
func userWho(t *testing.T, configure, write, read string) *url.URL {
	t.Helper()
	u, err := url.Parse(brokerURL(t))
	need(t, err)
	user := uniqueName(t, "limited")
	u.User = url.UserPassword(user, "pass")
	topoAPI(t, http.MethodPut, "users/"+user, map[string]any{"password": "pass", "tags": ""})
	t.Cleanup(func() { manage(t, http.MethodDelete, "/api/users/"+user, "") })
	topoAPI(t, http.MethodPut, "permissions/%2F/"+user,
		map[string]any{"configure": configure, "write": write, "read": read})
	return u
}

func managed(ctx context.Context, t *testing.T, method, path, body string) (int, []byte) {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, method, managementURL(t)+path, strings.NewReader(body))
	need(t, err)
	req.Close = true // no goroutine of an idle connection stays behind
	req.Header.Set("Content-Type", "application/json")
	res, err := http.DefaultClient.Do(req)
	need(t, err)
	defer res.Body.Close()
	answer, err := io.ReadAll(res.Body)
	if err != nil {
		t.Fatalf("%s %s: %s, %v", method, path, res.Status, err)
	}
	return res.StatusCode, answer
}
