package integration

import (
	"errors"
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/deadletter"
)

// TestDescribe describes queues, with the management API and without, and sees a policy if that can be seen.
func TestDescribe(t *testing.T) {
	major, minor := brokerVersion(t)
	conn := dialBroker(t)
	for _, tc := range []struct {
		name   string
		args   amqp.Table
		policy string
		api    bool
		want   deadletter.Nature
	}{
		{"classic", nil, "", false, deadletter.Nature{Type: "classic"}},
		{"quorum", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 7}, "", false, deadletter.Nature{Type: "quorum", Limit: 7, Limited: true}},
		{"no limit", amqp.Table{"x-queue-type": "quorum"}, "", true, deadletter.Nature{Type: "quorum", PolicyKnown: true}},
		{"policy", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 7}, `{"delivery-limit":3}`, true, deadletter.Nature{Type: "quorum", Limit: 3, Limited: true, PolicyKnown: true}},
	} {
		t.Run(tc.name, func(t *testing.T) {
			queue := uniqueName(t, "describe")
			deleteQueues(t, queue)
			if tc.policy != "" {
				manage(t, http.MethodPut, "/api/policies/%2F/"+queue, `{"pattern":"^`+queue+`$","apply-to":"queues","definition":`+tc.policy+`}`)
				t.Cleanup(func() { manage(t, http.MethodDelete, "/api/policies/%2F/"+queue, "") })
			}
			err := onChannel(dialer(t), func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(queue, true, false, false, false, tc.args)
				return err
			})
			if err != nil {
				t.Fatal(err)
			}
			api := ""
			if tc.api {
				api = managementURL(t)
			}
			got, err := deadletter.Describe(t.Context(), conn, queue, api, nil)
			tc.want.Major, tc.want.Minor = major, minor
			if err != nil || got != tc.want {
				t.Errorf("%+v, %v, want %+v", got, err, tc.want)
			}
		})
	}
	if _, err := deadletter.Describe(t.Context(), conn, uniqueName(t, "none"), "", nil); !errors.Is(err, deadletter.ErrQueueNotFound) {
		t.Errorf("%v", err)
	}
}
