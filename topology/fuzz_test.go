package topology

import (
	"context"
	"encoding/json"
	"net/http"
	"net/url"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/queueinfo"
)

// FuzzAnswers: whatever the management API says of a queue is judged.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"type":"quorum","durable":true,"arguments":{"x-delivery-limit":7,"x-dead-letter-exchange":"dlx"}}`, "4.0.5", 3)
	f.Add(`{"type":"quorum","arguments":{"x-delivery-limit":-1},"effective_policy_definition":{"delivery-limit":"none"}}`, "3.10.8", 0)
	f.Add(`{"type":1}`, "", -1)
	f.Add(`{"type":"classic","arguments":[],"effective_policy_definition":[]}`, "4", 1000)
	f.Add(`{"arguments":{"x-dead-letter-exchange":{},"x-overflow":[1],"x-max-priority":1e999,"x-queue-type":null}}`, "x.y", 3)
	f.Add(`[{"destination":"q.dlq","destination_type":"queue"}]`, "4.3.6-rc.1+2", 3)
	f.Fuzz(func(t *testing.T, text, broker string, retries int) {
		var q apiQueue
		d := json.NewDecoder(strings.NewReader(text))
		d.UseNumber()
		if d.Decode(&q) != nil {
			return
		}
		integers(q.Arguments)
		integers(q.Policy)
		v, _ := queueinfo.ParseVersion(broker)
		have := facts{
			product: "RabbitMQ", Queue: queueinfo.Queue{Version: v, Name: "q", Policy: q.Policy, PolicyKnown: q.Policy != nil, Declared: q.declared()},
		}
		for _, found := range judge(have, Need{Queue: "q", MaxRetries: retries, Ordered: len(text)%2 == 0}) {
			if found.Code == "" || found.Seen == "" || found.Why == "" || found.Fix == "" {
				t.Errorf("%s: %+v says not all", text, found)
			}
		}
	})
}

// FuzzManagementURL: a URL of any form is used or refused, and its password is in no error.
func FuzzManagementURL(f *testing.F) {
	const secret = "Xq7vSecretZk9"
	for _, around := range []string{"", "/", "?", "#", "@", "%", ":", "://", "[", "\n", "%zz", " "} {
		f.Add("http://ops:", around, "@127.0.0.1:1")
		f.Add("https://", around, "@[::1]:1/path?x=y#z")
	}
	f.Fuzz(func(t *testing.T, before, around, after string) {
		raw := before + around + secret + around + after
		if escaped := url.QueryEscape(around); strings.Contains(before, "//") && len(around)%2 == 1 {
			raw = before + escaped + secret + escaped + after
		}
		m, err := newManagement(raw, &http.Client{Transport: refusing{}})
		if err == nil {
			if u, _ := url.Parse(raw); u.User == nil || !strings.Contains(u.User.String(), secret) {
				return // it stands where no password does
			}
			_, err = m.queue(context.Background(), "/", "q")
		}
		if err == nil || strings.Contains(err.Error(), secret) {
			t.Errorf("%q: %v", raw, err)
		}
	})
}

// refusing is a network that is away.
type refusing struct{}

func (refusing) RoundTrip(*http.Request) (*http.Response, error) { return nil, http.ErrServerClosed }
