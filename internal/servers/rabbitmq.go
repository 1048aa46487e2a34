package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os/exec"
	"path/filepath"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RabbitMQOptions says what private broker to start. The zero value is a plain
// broker without the management API.
type RabbitMQOptions struct {
	// Sbin is the directory of the RabbitMQ scripts to run. If empty, that of
	// the installed RabbitMQ, on PATH or where packages and Homebrew put it.
	Sbin string

	// Management enables the management plugin, and waits for its API. If
	// false, ManagementURL stays empty; it costs about two seconds.
	Management bool

	// Config is added to rabbitmq.conf, for instance "consumer_timeout = 10000".
	Config string

	// Cookie is the Erlang cookie, the same for all nodes of a cluster. If
	// empty, a random one.
	Cookie string
}

// RabbitMQ is a private broker. URL and ManagementURL carry the user guest with
// its default password, stay the same across Start, and contain no other
// secret. Its methods are for one goroutine at a time.
type RabbitMQ struct {
	URL           string // amqp://guest:guest@127.0.0.1:PORT/
	ManagementURL string // http://guest:guest@127.0.0.1:PORT, if it was asked for
	Version       string // as the broker names it, such as "4.0.5"

	process // after Kill, a queue that was declared a moment ago may be gone (seen once on 3.10.8)
	conf    rabbitConfig
	epmd    *child
}

// StartRabbitMQ starts a private broker and waits until it answers. It gives up
// when ctx is done, or after two minutes, and then leaves nothing behind. Once
// it has returned, ctx has no say: the broker lives until Close. Where RabbitMQ
// is not installed the error is exec.ErrNotFound.
func StartRabbitMQ(ctx context.Context, opts RabbitMQOptions) (*RabbitMQ, error) {
	r, err := NewRabbitMQ(opts)
	if err != nil {
		return nil, err
	}
	if err := r.Start(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// NewRabbitMQ chooses the ports and the directory of a private broker. It runs
// once Start is called; Close is due either way.
func NewRabbitMQ(opts RabbitMQOptions) (*RabbitMQ, error) {
	r, err := newRabbitMQ(opts)
	if err != nil {
		return nil, fmt.Errorf("servers: private RabbitMQ: %w", err)
	}
	return r, nil
}

func newRabbitMQ(opts RabbitMQOptions) (_ *RabbitMQ, err error) {
	if opts.Sbin == "" {
		if opts.Sbin, err = FindRabbitMQ(); err != nil {
			return nil, err
		}
	}
	if opts.Cookie == "" {
		opts.Cookie = rand.Text()
	}
	epmd, err := findEpmd()
	if err != nil {
		return nil, err
	}
	dir, err := newWorkdir("rabbitmq", 4)
	if err != nil {
		return nil, err
	}
	conf := rabbitConfig{
		opts: opts, dir: dir, epmd: epmd,
		amqpPort: dir.ports[0], managementPort: dir.ports[1], distPort: dir.ports[2], epmdPort: dir.ports[3],
	}
	r := &RabbitMQ{conf: conf, URL: fmt.Sprintf("amqp://guest:guest@127.0.0.1:%d/", conf.amqpPort)}
	if opts.Management {
		r.ManagementURL = fmt.Sprintf("http://guest:guest@127.0.0.1:%d", conf.managementPort)
	}
	return r, nil
}

// Node is the broker's Erlang node name.
func (r *RabbitMQ) Node() string { return r.conf.node() }

// DistPort is where other nodes reach this one.
func (r *RabbitMQ) DistPort() int { return r.conf.distPort }

// EpmdPort is where the broker's port mapper listens.
func (r *RabbitMQ) EpmdPort() int { return r.conf.epmdPort }

// AddConfig adds to rabbitmq.conf, before the first Start.
func (r *RabbitMQ) AddConfig(text string) { r.conf.opts.Config += text }

// Start starts the broker, for the first time or again after Stop or Kill, on
// the same ports with the same data, and waits until it answers. If it does
// not, it is stopped.
func (r *RabbitMQ) Start(ctx context.Context) error {
	if r.server.running() {
		return errors.New("servers: RabbitMQ runs already")
	}
	if err := r.start(ctx); err != nil {
		return fmt.Errorf("servers: starting RabbitMQ from %s: %w", r.conf.opts.Sbin, errors.Join(err, r.server.kill()))
	}
	return nil
}

func (r *RabbitMQ) start(ctx context.Context) (err error) {
	if err := r.StartEpmd(ctx); err != nil {
		return err
	}
	if err := r.conf.write(); err != nil {
		return err
	}
	r.server, err = startChild(r.conf.dir, "rabbitmq", r.conf.env(), filepath.Join(r.conf.opts.Sbin, "rabbitmq-server"))
	if err != nil {
		return err
	}
	return waitReady(ctx, r.server, r.probe)
}

// StartEpmd starts the broker's port mapper if it does not run, as Start does.
// The broker itself would start one as a daemon, open to the network and left
// behind.
func (r *RabbitMQ) StartEpmd(ctx context.Context) (err error) {
	if r.epmd.running() {
		return nil
	}
	if r.epmd, err = startChild(r.conf.dir, "epmd", r.conf.env(), r.conf.epmdArgs()...); err != nil {
		return err
	}
	return waitReady(ctx, r.epmd, dialable(r.conf.epmdPort))
}

// Ctl runs rabbitmqctl on the broker and returns what it printed on standard
// output. An error carries what it printed on standard error.
func (r *RabbitMQ) Ctl(ctx context.Context, args ...string) (string, error) {
	all := append([]string{"--quiet", "--node", r.conf.node()}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(r.conf.opts.Sbin, "rabbitmqctl"), all...)
	cmd.Env, cmd.Dir = r.conf.env(), r.conf.dir.path
	out, err := cmd.Output()
	if err != nil {
		var exit *exec.ExitError
		if errors.As(err, &exit) {
			err = fmt.Errorf("%w: %s%s", err, out, exit.Stderr)
		}
		return string(out), fmt.Errorf("servers: rabbitmqctl %q: %w", args, err)
	}
	return string(out), nil
}

// Close kills what still runs and removes the directory with all data. It must
// be called once; the broker cannot be started again.
func (r *RabbitMQ) Close() error {
	err := errors.Join(r.server.kill(), r.epmd.kill(), r.conf.dir.close())
	if err != nil {
		return fmt.Errorf("servers: closing RabbitMQ: %w", err)
	}
	return nil
}

// Probe fails unless the broker answers within a few seconds.
func (r *RabbitMQ) Probe(ctx context.Context) error { return probeOnce(ctx, r.probe) }

// probe asks what a user would: a whole AMQP handshake, and the management API.
func (r *RabbitMQ) probe(ctx context.Context) error {
	conn, err := amqp.DialConfig(r.URL, amqp.Config{Dial: dialWithin(ctx)})
	if err != nil {
		return err
	}
	r.Version, _ = conn.Properties["version"].(string)
	if err := conn.Close(); err != nil {
		return err
	}
	if r.ManagementURL == "" {
		return nil
	}
	return getOK(ctx, r.ManagementURL+"/api/overview")
}
