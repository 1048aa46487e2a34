package main

import (
	"context"
	"fmt"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/urfave/cli/v3"

	"github.com/strikesmq/strikes/topology"
)

func uncheckedFlag() cli.Flag {
	return &cli.BoolFlag{Name: "unchecked", Usage: "do not ask the broker whether the queue's delivery limit leaves room"}
}

// checkRoom refuses a number of retries before which the broker would end the message's life by itself.
func (a *app) checkRoom(ctx context.Context, c *cli.Command, queue string, retries int) error {
	if c.Bool("unchecked") {
		return nil
	}
	b, err := brokerOf(c)
	if err != nil {
		return err
	}
	if vhost := c.String("vhost"); vhost != "" && vhost != b.vhost {
		return usagef("the broker's URL is of virtual host %q, not %q, so the queue's delivery limit cannot be seen (--unchecked: do it all the same)", b.vhost, vhost)
	}
	err = b.with(ctx, func(conn *amqp.Connection) error { return a.room(ctx, conn, queue, retries) })
	if err != nil && exitCode(err) != exitInterrupted {
		err = fmt.Errorf("%w (--unchecked: do it all the same)", err)
	}
	return err
}

// room holds a number of retries against the delivery limit of the queue. What else is wrong with the queue is for those
// who consume from it.
func (a *app) room(ctx context.Context, conn *amqp.Connection, queue string, retries int) error {
	findings, err := topology.Inspect(ctx, conn, topology.Need{Queue: queue, MaxRetries: retries})
	if err != nil {
		return err
	}
	for _, f := range findings {
		switch {
		case !strings.HasPrefix(f.Code, "delivery-limit-"):
		case f.Severity >= topology.Error:
			return &topology.RefusedError{Queue: queue, Findings: []topology.Finding{f}}
		default:
			fmt.Fprintf(a.stderr, "strikes: %s\n", printable(f.String(), ""))
		}
	}
	return nil
}
