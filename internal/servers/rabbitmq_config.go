package servers

import (
	"errors"
	"fmt"
	"os"
	"strconv"
	"time"
)

// rabbitConfig is what a private broker is started with.
type rabbitConfig struct {
	opts RabbitMQOptions
	dir  *workdir
	epmd string

	amqpPort, managementPort, distPort, epmdPort int

	written bool
}

// silence is after how long a node takes another for gone that says nothing.
// RabbitMQ's own setting, a minute, is for networks; these are on loopback.
const silence = 8 * time.Second

// inetrc tells Erlang what localhost is: a bare container has no /etc/hosts,
// and elsewhere it may be ::1, where our epmd need not listen.
const inetrc = `{lookup, [file, native]}.
{host, {127,0,0,1}, ["localhost"]}.
`

func (c *rabbitConfig) node() string { return c.name() + "@localhost" }

// name is what the node is called at the port mappers.
func (c *rabbitConfig) name() string { return fmt.Sprintf("strikes%d", c.amqpPort) }

func (c *rabbitConfig) epmdArgs() []string {
	return []string{c.epmd, "-port", strconv.Itoa(c.epmdPort), "-address", "127.0.0.1"}
}

// write puts every file in place that RabbitMQ would otherwise look for in the
// machine's own configuration. It does so once.
func (c *rabbitConfig) write() error {
	if c.written {
		return nil
	}
	c.written = true
	plugins := "[]."
	if c.opts.Management {
		plugins = "[rabbitmq_management]."
	}
	return errors.Join(
		os.WriteFile(c.dir.join("rabbitmq.conf"), []byte(c.conf()), 0o600),
		os.WriteFile(c.dir.join("advanced.config"), []byte("[].\n"), 0o600),
		os.WriteFile(c.dir.join("enabled_plugins"), []byte(plugins+"\n"), 0o600),
		os.WriteFile(c.dir.join("rabbitmq-env.conf"), nil, 0o600),
		os.WriteFile(c.dir.join("inetrc"), []byte(inetrc), 0o600),
		os.WriteFile(c.dir.join(".erlang.cookie"), []byte(c.opts.Cookie), 0o400),
	)
}

func (c *rabbitConfig) conf() string {
	conf := fmt.Sprintf("listeners.tcp.1 = 127.0.0.1:%d\nlog.console = true\nlog.console.use_colors = off\nlog.file "+
		"= false\n", c.amqpPort)
	if c.opts.Management {
		conf += fmt.Sprintf("management.tcp.ip = 127.0.0.1\nmanagement.tcp.port = %d\n", c.managementPort)
	}
	return conf + c.opts.Config + "\n"
}

// env is the whole environment of the broker, its epmd and rabbitmqctl:
// nothing is inherited but PATH, so no RABBITMQ_ or ERL_ variable of the user's
// reaches them.
func (c *rabbitConfig) env() []string {
	const loopback = "-kernel inet_dist_use_interface {127,0,0,1}"
	server := fmt.Sprintf("%s -kernel net_ticktime %d", loopback, int(silence/time.Second))
	return []string{
		"PATH=" + searchPath(),
		"HOME=" + c.dir.path,
		"TMPDIR=" + c.dir.path,
		"LC_ALL=C.UTF-8",

		// The script then becomes the Erlang VM instead of waiting for it, so
		// that a signal to the child is one to the broker.
		"RUNNING_UNDER_SYSTEMD=true",

		"RABBITMQ_NODENAME=" + c.node(),
		fmt.Sprint("RABBITMQ_DIST_PORT=", c.distPort),
		"ERL_INETRC=" + c.dir.join("inetrc"),
		fmt.Sprint("ERL_EPMD_PORT=", c.epmdPort),
		"ERL_EPMD_ADDRESS=127.0.0.1",
		"RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS=" + server,
		"RABBITMQ_CTL_ERL_ARGS=" + loopback,

		"RABBITMQ_CONF_ENV_FILE=" + c.dir.join("rabbitmq-env.conf"),
		"RABBITMQ_CONFIG_FILE=" + c.dir.join("rabbitmq.conf"),
		"RABBITMQ_CONFIG_FILES=" + c.dir.join("conf.d", "*.conf"),
		"RABBITMQ_ADVANCED_CONFIG_FILE=" + c.dir.join("advanced.config"),
		"RABBITMQ_ENABLED_PLUGINS_FILE=" + c.dir.join("enabled_plugins"),
		"RABBITMQ_MNESIA_BASE=" + c.dir.join("data"),
		"RABBITMQ_LOG_BASE=" + c.dir.join("log"),
		"RABBITMQ_PID_FILE=" + c.dir.join("rabbitmq.pid"),
	}
}
