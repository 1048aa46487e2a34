package integration

import (
	"errors"
	"net/http"
	"testing"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/deadletter"
)

// TestOpen finds the actions that are safe on a queue, with the management API and without, and heeds a policy that
// can be seen.
func TestOpen(t *testing.T) {
	t.Parallel()
	old := brokerVersion(t).Before(4, 0)
	for _, tc := range []struct {
		name       string
		args       amqp.Table
		policy     string
		api        bool
		take, hold bool
	}{
		{"classic", nil, "", false, true, true},
		{"quorum, and a policy may apply", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 2000}, "", false, !old,
			false},
		{"quorum", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 1_000_000}, "", true, true, true},
		{"quorum without a limit", amqp.Table{"x-queue-type": "quorum"}, "", true, true, false},
		{"quorum with a policy", amqp.Table{"x-queue-type": "quorum", "x-delivery-limit": 2000}, `{"delivery-limit":3}`, true,
			false, false},
	} {
		t.Run(tc.name, func(t *testing.T) {
			queue := uniqueName(t, "open")
			deleteLater(t, queue)
			if tc.policy != "" {
				manage(t, http.MethodPut, "/api/policies/%2F/"+queue, `{"pattern":"^`+queue+`$","apply-to":"queues","definition":`+
					tc.policy+`}`)
				t.Cleanup(func() { manage(t, http.MethodDelete, "/api/policies/%2F/"+queue, "") })
			}
			err := onChannel(dialer(t), func(ch *amqp.Channel) error {
				_, err := ch.QueueDeclare(queue, true, false, false, false, tc.args)
				return err
			})
			need(t, err)
			api := deadletter.Management{}
			if tc.api {
				api.URL = managementURL(t)
			}
			q, err := deadletter.Open(t.Context(), deadletter.Queue{Name: queue, Dial: dialer(t)}, api)
			need(t, err)
			if h := q.Handling; h.Take != tc.take || h.Hold != tc.hold || (h.Why == "") != tc.hold {
				t.Errorf("%+v, want Take %v, Hold %v", h, tc.take, tc.hold)
			}
		})
	}
	none := deadletter.Queue{Name: uniqueName(t, "none"), Dial: dialer(t)}
	if _, err := deadletter.Open(t.Context(), none, deadletter.Management{}); !errors.Is(err,
		deadletter.ErrQueueNotFound) {
		t.Errorf("%v", err)
	}
}
