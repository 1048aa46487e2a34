package doctor

import (
	"context"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/internal/similar"
)

// DidYouMean asks for the queues that a misspelt name is like. It is empty if there are none, or if need.Management
// does not list them: AMQP cannot.
func DidYouMean(ctx context.Context, conn *amqp.Connection, need inspect.Need, queue string) string {
	api, err := need.API()
	if api == nil || err != nil {
		return ""
	}
	all, err := api.Queues(ctx, conn.Config.Vhost)
	if err != nil {
		return ""
	}
	var names []string
	for _, q := range all {
		names = append(names, q.Name)
	}
	return similar.Question(queue, names, "")
}
