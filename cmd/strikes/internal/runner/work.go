package runner

import (
	"context"
	"fmt"
	"os"
	"os/exec"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/push"
	"github.com/strikesmq/strikes/consumer"
)

// work is what handles messages: a command, or an endpoint.
type work struct {
	handle    consumer.Handler
	cancel    func() // ends what runs, and lets nothing begin
	close     func() // called once nothing runs
	cancelled string // what cancel did, for people
}

// work returns what the flags ask for, or why that cannot be.
func (o *Options) work(s cli.Streams, queue string, command []string) (work, error) {
	if o.HTTP != "" {
		return o.posts(queue)
	}
	for name, value := range map[string]string{"http-ca": o.HTTPCA, "http-cert": o.HTTPCert, "http-key": o.HTTPKey,
		"http-token-file": o.HTTPToken} {
		if value != "" {
			return work{}, cli.Misusef("--%s needs --http", name)
		}
	}
	path, err := exec.LookPath(command[0])
	if err != nil {
		return work{}, cli.Misusef("the command cannot be run: %w", err)
	}
	c := &Command{Path: path, Args: command[1:], Stdout: s.Out, Stderr: s.Err}
	if o.JSON {
		c.Stdout = s.Err
	}
	log := cli.NewLogger(s.Err, o.Verbose)
	base := os.Environ()
	handle := func(ctx context.Context, d amqp.Delivery) error {
		attempt, _ := consumer.AttemptFrom(ctx)
		env, omitted := Environ(base, queue, d, attempt)
		for _, name := range omitted {
			log.Warn("a variable was not passed to the command: its value has a NUL", "variable", name,
				"id", fmt.Sprintf("%q", d.MessageId))
		}
		return c.Run(ctx, env, d.Body)
	}
	return work{handle: handle, cancel: c.KillAll, close: func() {}, cancelled: "commands were killed"}, nil
}

func (o *Options) posts(queue string) (work, error) {
	e, err := push.New(push.Options{
		URL: o.HTTP, CA: o.HTTPCA, Cert: o.HTTPCert, Key: o.HTTPKey, TokenFile: o.HTTPToken, Queue: queue,
		Connections: o.Concurrency,
	})
	if err != nil {
		return work{}, cli.Misuse(err)
	}
	return work{handle: e.Handle, cancel: e.Cancel, close: e.Close, cancelled: "requests were cancelled"}, nil
}
