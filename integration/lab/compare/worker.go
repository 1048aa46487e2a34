package compare

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/audit"
)

// runWorker is a consumer process. It writes down what a handler does before it does it.
func runWorker(ctx context.Context, s spec) error {
	log, err := audit.Append(s.History, s.Number)
	if err != nil {
		return err
	}
	c := &client{
		spec: s, way: findWay(s.Way), handle: func(d *amqp.Delivery) error { return handle(log, s.History, d) },
		copies: func(d *amqp.Delivery, copied string) {
			log.Write(audit.Event{Kind: audit.Copied, ID: d.MessageId, Copy: copied, Token: copyOf(d)})
		},
	}
	if c.way == nil {
		return fmt.Errorf("no way %q", s.Way)
	}
	return errors.Join(c.way.work(ctx, c), log.Close())
}

func handle(log *audit.Log, dir string, d *amqp.Delivery) error {
	var j job
	if err := json.Unmarshal(d.Body, &j); err != nil {
		return err
	}
	log.Write(audit.Event{Kind: audit.Began, ID: d.MessageId, Copy: copyOf(d)})
	err := j.run(dir)
	e := audit.Event{Kind: audit.Ended, ID: d.MessageId, Outcome: audit.OK}
	if err != nil {
		e.Outcome = audit.Failed
	}
	log.Write(e)
	return err
}
