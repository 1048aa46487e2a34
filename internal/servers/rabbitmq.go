package servers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

// RabbitMQOptions are the options of a private broker. The zero value is a plain broker without the management API.
type RabbitMQOptions struct {
	// Management enables the management plugin, and waits for its API. If false, ManagementURL stays empty; it costs
	// about two seconds.
	Management bool

	// Config is added to rabbitmq.conf, for instance "consumer_timeout = 10000".
	Config string

	// Join is a broker whose cluster this one joins, and whose port mapper it uses. If nil, it is alone.
	Join *RabbitMQ
}

// RabbitMQ is a private broker. URL and ManagementURL carry the user guest with its default password, stay the same
// across Start, and contain no other secret. After Kill, a queue that was declared a moment ago may be gone (seen once
// on 3.10.8).
type RabbitMQ struct {
	server
	URL           string // amqp://guest:guest@127.0.0.1:PORT/
	ManagementURL string // http://guest:guest@127.0.0.1:PORT, if it was asked for

	opts       RabbitMQOptions
	cookie     string // of Erlang, the same for all nodes of a cluster
	sbin       string
	mapper     *child
	mapperPath string
}

// The ports of a broker.
const (
	amqpPort = iota
	managementPort
	distPort
	mapperPort
	rabbitPorts // how many there are
)

// StartRabbitMQ starts a private broker and waits until it answers. It gives up when ctx is done, or after two
// minutes, and then leaves nothing behind. After it has returned, ctx has no effect: the broker lives until Close.
// Where RabbitMQ is not installed the error is exec.ErrNotFound.
func StartRabbitMQ(ctx context.Context, opts RabbitMQOptions) (*RabbitMQ, error) {
	sbin, err := FindRabbitMQ()
	if err != nil {
		return nil, err
	}
	mapper, err := findExecutable("epmd")
	if err != nil {
		return nil, fmt.Errorf("no Erlang is installed: %w", err)
	}
	s, err := newServer("RabbitMQ", rabbitPorts)
	if err != nil {
		return nil, err
	}
	r := &RabbitMQ{server: s, opts: opts, cookie: rand.Text(), sbin: sbin, mapperPath: mapper,
		URL: "amqp://guest:guest@" + s.addr(amqpPort) + "/"}
	if opts.Join != nil {
		r.cookie = opts.Join.cookie
		const nodes = "\ncluster_formation.classic_config.nodes."
		r.opts.Config += "\ncluster_formation.peer_discovery_backend = classic_config" + nodes + "1 = " + opts.Join.node() +
			nodes + "2 = " + r.node()
	}
	if opts.Management {
		r.ManagementURL = "http://guest:guest@" + s.addr(managementPort)
	}
	r.probe, r.args, r.env = r.answers, []string{filepath.Join(sbin, "rabbitmq-server")}, r.environment()
	if err := r.Start(ctx); err != nil {
		return nil, errors.Join(err, r.Close())
	}
	return r, nil
}

// node is the broker's Erlang node name.
func (r *RabbitMQ) node() string { return "strikes" + r.port(amqpPort) + "@localhost" }

// DistPort is where other nodes reach this one.
func (r *RabbitMQ) DistPort() int { return r.dir.ports[distPort] }

// MapperPort is where the broker's port mapper listens.
func (r *RabbitMQ) MapperPort() int {
	if r.opts.Join != nil {
		return r.opts.Join.MapperPort()
	}
	return r.dir.ports[mapperPort]
}

// Start starts the broker, for the first time or again after Stop or Kill. It has the same ports and the same data.
// Start waits until it answers. If it does not, it is stopped.
func (r *RabbitMQ) Start(ctx context.Context) error {
	if err := errors.Join(r.startMapper(ctx), r.write()); err != nil {
		return fmt.Errorf("servers: starting RabbitMQ from %s: %w", r.sbin, err)
	}
	return r.server.Start(ctx)
}

// startMapper starts the broker's port mapper, epmd, if it does not run. The broker itself would start one as a daemon,
// open to the network and left behind.
func (r *RabbitMQ) startMapper(ctx context.Context) (err error) {
	if r.opts.Join != nil || r.mapper.running() {
		return nil
	}
	args := []string{r.mapperPath, "-port", r.port(mapperPort), "-address", "127.0.0.1"}
	if r.mapper, err = startChild(r.dir, "epmd", r.env, args...); err != nil {
		return err
	}
	return r.mapper.await(ctx, func(ctx context.Context) error {
		conn, err := new(net.Dialer).DialContext(ctx, "tcp", r.addr(mapperPort))
		if err != nil {
			return err
		}
		return conn.Close()
	})
}

// Ctl runs rabbitmqctl on the broker. An error carries its output.
func (r *RabbitMQ) Ctl(ctx context.Context, args ...string) error {
	all := append([]string{"--quiet", "--node", r.node()}, args...)
	cmd := exec.CommandContext(ctx, filepath.Join(r.sbin, "rabbitmqctl"), all...)
	cmd.Env, cmd.Dir = r.env, r.dir.path
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("servers: rabbitmqctl %q: %w: %s", args, err, out)
	}
	return nil
}

// answers asks as a user would: a whole AMQP handshake, and the management API.
func (r *RabbitMQ) answers(ctx context.Context) error {
	conn, err := amqp.DialConfig(r.URL, amqp.Config{Dial: amqp.DefaultDial(probeTimeout)})
	if err != nil {
		return err
	}
	if err := conn.Close(); err != nil || r.ManagementURL == "" {
		return err
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, r.ManagementURL+"/api/overview", nil)
	if err != nil {
		return err
	}
	req.Close = true // no idle connection outlives the probe
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		return err
	}
	if res.StatusCode != http.StatusOK {
		err = fmt.Errorf("GET %s: %s", req.URL.Redacted(), res.Status)
	}
	return errors.Join(err, res.Body.Close())
}

// silence is how long a node may be silent before another takes it for gone. RabbitMQ's own setting is a minute, for
// networks. These nodes are on loopback.
const silence = 8 * time.Second

// inetrc tells Erlang the address of localhost. A bare container has no /etc/hosts, and elsewhere it may be ::1, where
// our port mapper need not listen.
const inetrc = `{lookup, [file, native]}.
{host, {127,0,0,1}, ["localhost"]}.
`

// write puts every file in place that RabbitMQ would otherwise look for in the machine's own configuration, unless it
// has done so.
func (r *RabbitMQ) write() (err error) {
	if _, err := os.Stat(r.dir.join("inetrc")); err == nil {
		return nil
	}
	plugins, conf := "[].\n", "listeners.tcp.1 = "+r.addr(amqpPort)+
		"\nlog.console = true\nlog.console.use_colors = off\nlog.file = false\n"
	if r.opts.Management {
		plugins = "[rabbitmq_management].\n"
		conf += "management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = " + r.port(managementPort) + "\n"
	}
	for name, text := range map[string]string{
		"rabbitmq.conf": conf + r.opts.Config + "\n", "advanced.config": "[].\n", "enabled_plugins": plugins,
		"rabbitmq-env.conf": "", ".erlang.cookie": r.cookie, "inetrc": inetrc,
	} {
		err = errors.Join(err, os.WriteFile(r.dir.join(name), []byte(text), 0o400)) // as Erlang demands of the cookie
	}
	return err
}

// environment is the whole environment of the broker, its port mapper and rabbitmqctl. They inherit only PATH, so no
// RABBITMQ_ or ERL_ variable of the user's reaches them.
func (r *RabbitMQ) environment() []string {
	const loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
	server := fmt.Sprintf("%s -kernel net_ticktime %d", loopback, int(silence/time.Second))
	return []string{
		"PATH=" + searchPath(),
		"HOME=" + r.dir.path,
		"TMPDIR=" + r.dir.path,
		"LC_ALL=C.UTF-8",

		// The script then becomes the Erlang VM instead of waiting for it, so that a signal to the child is one to the
		// broker.
		"RUNNING_UNDER_SYSTEMD=true",

		"RABBITMQ_NODENAME=" + r.node(),
		"RABBITMQ_DIST_PORT=" + r.port(distPort),
		"ERL_INETRC=" + r.dir.join("inetrc"),
		"ERL_EPMD_PORT=" + strconv.Itoa(r.MapperPort()),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + server,
		"RABBITMQ_CTL_ERL_ARGS=" + loopback,

		"RABBITMQ_CONF_ENV_FILE=" + r.dir.join("rabbitmq-env.conf"),
		"RABBITMQ_CONFIG_FILE=" + r.dir.join("rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES=" + r.dir.join("conf.d", "*.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + r.dir.join("advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + r.dir.join("enabled_plugins"),
		"RABBITMQ_MNESIA_BASE=" + r.dir.join("data"),
		"RABBITMQ_LOG_BASE=" + r.dir.join("log"),
		"RABBITMQ_PID_FILE=" + r.dir.join("rabbitmq.pid"),
	}
}
