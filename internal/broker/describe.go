package broker

import (
	"context"
	"errors"
	"fmt"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// Description has the known facts about a queue, and about the sources of those facts.
type Description struct {
	Queue
	Policies Policies // of the virtual host
	Trouble  string   // why the management API, which was given, says nothing

	Ready, Consumers int // now, by AMQP; both are 0 if it does not say
}

// Look describes a queue. It asks the API, and AMQP if there is no API (nil) or it does not answer: then the user needs
// the configure permission on the queue. AMQP is asked nothing about a queue that is away by the API, because it may
// not answer. Look returns ErrNotFound, or an error of the connection.
func Look(ctx context.Context, conn *amqp.Connection, name string, api *API) (Description, error) {
	if conn == nil {
		return Description{}, ErrNoConnection
	}
	d := Description{Queue: Queue{Name: name, VHost: conn.Config.Vhost, Version: VersionOf(conn)}}
	if api != nil {
		if err := d.ask(ctx, conn, api); err != nil { // AMQP may know enough
			d.Trouble = err.Error()
		}
	}
	if d.Away {
		return d, nil
	}
	found, now, err := FindQueue(ctx, conn, name)
	d.Ready, d.Consumers = now.Messages, now.Consumers
	var reply *amqp.Error
	switch {
	case errors.As(err, &reply) && reply.Code == amqp.ResourceLocked:
		d.Exclusive = true
		return d, nil
	case IsAway(err):
		if d.Away = true; d.Type == "" {
			d.Unread = err.Error()
		}
		return d, nil
	case UnlessRefused(err) != nil:
		return d, err
	case found == No:
		return d, ErrNotFound
	}
	if d.Type == "" { // the API does not describe it
		if err := d.Read(ctx, conn); err != nil {
			return d, fmt.Errorf("read its arguments: %w", err)
		}
	}
	return d, nil
}

func (d *Description) ask(ctx context.Context, conn *amqp.Connection, api *API) error {
	if err := api.Serves(ctx, conn); err != nil {
		return err
	}
	q, err := api.Queue(ctx, d.VHost, d.Name)
	if errors.Is(err, ErrNoObject) { // it does not exist, is new, or its node is down
		return nil
	}
	if err != nil {
		return err
	}
	if d.Policies, err = api.Policies(ctx, d.VHost); err != nil {
		return err
	}
	q.Version = d.Version
	d.Queue = q
	d.Policies.Apply(&d.Queue)
	return nil
}

// Describe is Look, and waits 15 s for the policy of a quorum queue that was just declared.
func Describe(ctx context.Context, conn *amqp.Connection, name string, api *API) (Description, error) {
	return Settled(ctx, func(ctx context.Context) (Description, bool, error) {
		d, err := Look(ctx, conn, name, api)
		return d, api == nil || d.Trouble != "" || d.PolicyKnown || d.Type != Quorum, err
	})
}

const (
	// A new queue's policy shows in the API after 2 to 9 s.
	settleWait = 15 * time.Second
	settlePoll = 500 * time.Millisecond
)

// Settled calls look again while it does not know enough, for 15 s at most, and returns the last result.
func Settled[T any](ctx context.Context, look func(context.Context) (seen T, enough bool, err error)) (T, error) {
	begun := time.Now()
	poll := time.NewTicker(settlePoll)
	defer poll.Stop()
	for {
		seen, enough, err := look(ctx)
		if err != nil || enough || time.Since(begun) >= settleWait {
			return seen, err
		}
		select {
		case <-poll.C:
		case <-ctx.Done():
			return seen, ctx.Err()
		}
	}
}
