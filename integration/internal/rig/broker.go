// Package rig opens the servers that a program of the laboratory uses, and kills, empties and examines them.
package rig

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"net/url"
	"os"
	"os/exec"
	"strings"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/proxy"
	"github.com/strikesmq/strikes/internal/servers"
	"github.com/strikesmq/strikes/publisher"
	"github.com/strikesmq/strikes/topology"
)

// Options say which RabbitMQ to use.
type Options struct {
	AMQP        string // its URL; if empty, a private one is started
	Kill, Start string // commands that kill and start the one at AMQP; if empty, it is not killed
}

// Flags adds the flags for the options. Queues names those that a RabbitMQ at -amqp must not have.
func (o *Options) Flags(f *flag.FlagSet, queues string) {
	f.StringVar(&o.AMQP, "amqp", "", "`URL` of a RabbitMQ to use; if empty, a private one is started. It must not have "+
		queues)
	f.StringVar(&o.Kill, "broker-kill", "", "`command` that kills the RabbitMQ at -amqp; if empty, it is not killed")
	f.StringVar(&o.Start, "broker-start", "", "`command` that starts it again")
}

// Validate names flags that do not go together.
func (o Options) Validate() error {
	switch {
	case (o.Kill == "") != (o.Start == ""):
		return errors.New("-broker-kill and -broker-start go together")
	case o.Kill != "" && o.AMQP == "":
		return errors.New("-broker-kill is for a RabbitMQ named by -amqp; a private one is killed anyway")
	}
	return nil
}

// Broker is a RabbitMQ: a private one, or one that commands kill and start, or one that is left alone.
type Broker struct {
	URL                       string
	Private                   *servers.RabbitMQ
	KillCommand, StartCommand string
	Version                   string // as the broker names it

	declared string // a queue that is ours to remove
}

// OpenBroker starts a private RabbitMQ, or connects to the one that is named.
func OpenBroker(ctx context.Context, o Options) (_ *Broker, err error) {
	b := &Broker{URL: o.AMQP, KillCommand: o.Kill, StartCommand: o.Start}
	if o.AMQP == "" {
		if b.Private, err = servers.StartRabbitMQ(ctx, servers.RabbitMQOptions{}); err != nil {
			return nil, err
		}
		b.URL = b.Private.URL
	}
	err = b.OnConnection(func(conn *amqp.Connection) error {
		b.Version, _ = conn.Properties["version"].(string)
		return nil
	})
	if err != nil {
		return nil, errors.Join(err, b.Close())
	}
	return b, nil
}

// NewProxy returns a proxy of it.
func (b *Broker) NewProxy(ctx context.Context) (*proxy.Proxy, error) {
	return proxy.New(ctx, hostOf(b.URL))
}

// Through returns its URL with another address in it.
func (b *Broker) Through(addr string) string { return through(b.URL, addr) }

// through returns a URL with another address in it.
func through(rawURL, addr string) string { return strings.Replace(rawURL, hostOf(rawURL), addr, 1) }

// hostOf is the address in a URL of a server.
func hostOf(rawURL string) string {
	u, err := url.Parse(rawURL)
	if err != nil {
		return ""
	}
	return u.Host
}

// settled is the time after which a RabbitMQ keeps the log of a new quorum queue through a kill.
const settled = 5 * time.Second

// CanKill reports whether it can be killed and started.
func (b *Broker) CanKill() bool { return b.Private != nil || b.KillCommand != "" }

// Declare declares a queue, which must not exist, with its dead-letter route, until Close. Then it restarts a private
// one, because one that is killed within moments of a quorum queue's declaration may forget its log. Where commands
// kill the RabbitMQ, it waits instead.
func (b *Broker) Declare(ctx context.Context, spec topology.Spec) error {
	if q, err := b.Queue(spec.Queue); err == nil {
		return fmt.Errorf("queue %s exists, with %d messages; delete it", spec.Queue, q.Messages)
	}
	if err := b.OnConnection(func(conn *amqp.Connection) error { return topology.Declare(ctx, conn, spec) }); err != nil {
		return err
	}
	b.declared = spec.Queue
	if b.Private == nil && b.KillCommand != "" {
		pause.For(ctx, settled)
	}
	return b.Restart(ctx)
}

// Kill ends it without warning.
func (b *Broker) Kill(ctx context.Context) error {
	switch {
	case b.Private != nil:
		return b.Private.Kill()
	case b.KillCommand != "":
		return shell(ctx, b.KillCommand)
	}
	return errors.New("killing the RabbitMQ at -amqp: name -broker-kill and -broker-start")
}

// Start starts it again, and waits until it answers.
func (b *Broker) Start(ctx context.Context) error {
	if b.Private != nil {
		return b.Private.Start(ctx)
	}
	if err := shell(ctx, b.StartCommand); err != nil {
		return err
	}
	return poll.Until(ctx, time.Minute, "the broker to answer", func() error {
		return b.OnConnection(func(*amqp.Connection) error { return nil })
	})
}

func shell(ctx context.Context, command string) error {
	cmd := exec.CommandContext(ctx, "sh", "-c", command)
	cmd.Stderr = os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s: %w", command, err)
	}
	return nil
}

// OnConnection bounds an exchange with a broker that may be paused or recovering.
func (b *Broker) OnConnection(do func(*amqp.Connection) error) error {
	conn, err := amqp.DialConfig(b.URL, amqp.Config{Dial: amqp.DefaultDial(5 * time.Second), Heartbeat: 2 * time.Second})
	if err != nil {
		return err
	}
	bound := time.AfterFunc(15*time.Second, func() { _ = conn.CloseDeadline(time.Now()) })
	defer bound.Stop()
	defer func() { _ = conn.CloseDeadline(time.Now().Add(5 * time.Second)) }()
	return do(conn)
}

// OnChannel is OnConnection with a channel.
func (b *Broker) OnChannel(do func(*amqp.Channel) error) error {
	return b.OnConnection(func(conn *amqp.Connection) error {
		ch, err := conn.Channel()
		if err != nil {
			return err
		}
		return do(ch)
	})
}

// Queue returns how many messages a queue has ready, and how many consumers.
func (b *Broker) Queue(name string) (q amqp.Queue, err error) {
	err = b.OnChannel(func(ch *amqp.Channel) error {
		q, err = ch.QueueDeclarePassive(name, true, false, false, false, nil)
		return err
	})
	return q, err
}

// Delete deletes a queue with its dead-letter route.
func (b *Broker) Delete(queue string) error {
	return b.OnChannel(func(ch *amqp.Channel) error {
		_, err := ch.QueueDelete(queue, false, false, false)
		_, errDead := ch.QueueDelete(queue+".dlq", false, false, false)
		return errors.Join(err, errDead, ch.ExchangeDelete(queue+".dlx", false, false))
	})
}

// Publish publishes messages and waits for all confirms.
func (b *Broker) Publish(ctx context.Context, all []publisher.Message) error {
	dial := publisher.Dialer(b.URL, amqp.Config{})
	pub, err := publisher.New(dial, nil)
	if err != nil {
		return err
	}
	return errors.Join(pub.PublishAll(ctx, all), pub.Close())
}

// Drain takes as many messages as a queue has ready. It consumes them: basic.get is refused on a quorum queue with a
// single active consumer. It acks each, so that one which arrives meanwhile stays in the queue.
func (b *Broker) Drain(queue string, take func(*amqp.Delivery)) error {
	return b.OnChannel(func(ch *amqp.Channel) error {
		found, err := ch.QueueDeclarePassive(queue, true, false, false, false, nil)
		if err != nil || found.Messages == 0 {
			return err
		}
		if err := ch.Qos(1, 0, false); err != nil {
			return err
		}
		deliveries, err := ch.Consume(queue, "drain", false, false, false, false, nil)
		if err != nil {
			return err
		}
		for empty := false; found.Messages > 0 && !empty; found.Messages-- {
			select {
			case d, ok := <-deliveries:
				if !ok {
					return fmt.Errorf("reading queue %s: the deliveries ended", queue)
				}
				if err := d.Ack(false); err != nil {
					return err
				}
				take(&d)
			case <-time.After(silence):
				empty = true
			}
		}
		return errors.Join(ch.Cancel("drain", false), ch.Close()) // else a quorum queue loses the last acks
	})
}

// silence is how long a queue says nothing when it is empty.
const silence = time.Second

// Restart stops and starts a private broker.
func (b *Broker) Restart(ctx context.Context) error {
	if b.Private == nil {
		return nil
	}
	return errors.Join(b.Private.Stop(ctx), b.Private.Start(ctx))
}

// Depth is the number of messages that a queue has ready.
func (b *Broker) Depth(queue string) (int, error) {
	q, err := b.Queue(queue)
	return q.Messages, err
}

// Returned is Depth once a queue has no consumer any more. If a process is killed, the broker returns its messages only
// when it notices that.
func (b *Broker) Returned(ctx context.Context, queue string) (int, error) {
	var q amqp.Queue
	err := poll.Until(ctx, time.Minute, "the consumers to be gone", func() (err error) {
		if q, err = b.Queue(queue); err == nil && q.Consumers > 0 {
			err = fmt.Errorf("queue %s has %d consumers", queue, q.Consumers)
		}
		return err
	})
	return q.Messages, err
}

// Recovered waits until it serves the queues.
func (b *Broker) Recovered(ctx context.Context, queues ...string) error {
	return poll.Until(ctx, 2*time.Minute, "the broker to serve the queues", func() error {
		for _, queue := range queues {
			if _, err := b.Queue(queue); err != nil {
				return err
			}
		}
		return nil
	})
}

// Close ends a private broker. On a RabbitMQ that was named it deletes the queues and exchanges of Declare. A nil
// Broker, as a nil Store or Dependency, has nothing to close.
func (b *Broker) Close() error {
	switch {
	case b == nil:
		return nil
	case b.Private != nil:
		return b.Private.Close()
	case b.declared == "":
		return nil
	}
	return b.Delete(b.declared)
}
