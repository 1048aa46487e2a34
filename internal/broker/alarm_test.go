package broker

import (
	"net/http"
	"net/http/httptest"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestAlarms has the replies of 3.10.8 and 4.3.6.
func TestAlarms(t *testing.T) {
	for _, tt := range []struct {
		name   string
		status int
		reply  string
		want   []Alarm
		fails  bool
	}{
		{"none", 200, `{"status":"ok"}`, nil, false},
		{"3.10", 503, `{"alarms":[{"node":"a@h","resource":"disk space"}],"reason":"There are alarms","status":"failed"}`,
			[]Alarm{{"a@h", "disk"}}, false},
		{"4.3", 503, `{"reason":"There are alarms","status":"failed","alarms":[{"node":"a@h","resource":"memory"},
			{"node":"b@h","resource":"disk"}]}`, []Alarm{{"a@h", "memory"}, {"b@h", "disk"}}, false},
		{"a proxy without a broker", 503, `<html>no server</html>`, nil, true},
		{"denied", 401, `{"error":"not_authorised"}`, nil, true},
	} {
		s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
			w.WriteHeader(tt.status)
			_, _ = w.Write([]byte(tt.reply))
		}))
		c, err := NewAPI(s.URL, nil)
		need(t, err)
		got, err := c.Alarms(t.Context())
		if diff := cmp.Diff(tt.want, got); (err != nil) != tt.fails || diff != "" {
			t.Errorf("%s: %v\n%s", tt.name, err, diff)
		}
		s.Close()
	}
}
