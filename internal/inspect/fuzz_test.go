package inspect

import (
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/strikesmq/strikes/internal/broker"
)

// replies is a management API that always replies the same.
type replies string

func (r replies) RoundTrip(*http.Request) (*http.Response, error) {
	return &http.Response{StatusCode: http.StatusOK, Body: io.NopCloser(strings.NewReader(string(r)))}, nil
}

// FuzzAnswers: any reply of the management API about a queue is judged.
func FuzzAnswers(f *testing.F) {
	f.Add(`{"type":"quorum","durable":true,"arguments":{"x-delivery-limit":7,"x-dead-letter-exchange":"dlx"}}`, "4.0.5", 3)
	f.Add(`{"type":"quorum","arguments":{"x-delivery-limit":-1},"effective_policy_definition":{"delivery-limit":"none"}}`,
		"3.10.8", 0)
	f.Add(`{"type":1}`, "", -1)
	f.Add(`{"type":"classic","arguments":[],"effective_policy_definition":[]}`, "4", 1000)
	f.Add(`{"arguments":{"x-dead-letter-exchange":{},"x-overflow":[1],"x-max-priority":1e999,"x-queue-type":null}}`,
		"x.y", 3)
	f.Add(`[{"destination":"q.dlq","destination_type":"queue"}]`, "4.3.6-rc.1+2", 3)
	f.Fuzz(func(t *testing.T, text, rabbit string, retries int) {
		api, err := broker.NewAPI("http://h", &http.Client{Transport: replies(text)})
		if err != nil {
			t.Fatal(err)
		}
		q, err := api.Queue(t.Context(), "/", "q")
		if err != nil {
			return
		}
		v, _ := broker.ParseVersion(rabbit)
		q.Version = v
		have := Facts{Product: "RabbitMQ", Description: broker.Description{Queue: q}}
		for _, found := range Judge(All, have, Need{Queue: "q", MaxRetries: retries, Ordered: len(text)%2 == 0}) {
			if found.Code == "" || found.Seen == "" || found.Impact == "" || found.Fix == "" {
				t.Errorf("%s: %+v is incomplete", text, found)
			}
		}
	})
}
