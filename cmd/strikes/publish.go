package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/internal/broker"
	"github.com/strikesmq/strikes/internal/pause"
	"github.com/strikesmq/strikes/internal/printable"
	"github.com/strikesmq/strikes/publisher"
)

type publish struct {
	cli.Streams
	connect.Flags

	contentType string
	routingKey  string // of messages that bring none
	ndjson      bool
	timeout     time.Duration

	publisher  *publisher.Publisher
	queue      string
	partitions int   // that the queue has; 0: none
	unknown    error // why that is not known
	progress   func(doing string, done, all int)

	used                         bool
	confirmed, failed, undecided int
	unsure                       []string // a few of those that are undecided
}

func (a *app) publishCommand() *cobra.Command {
	p := publish{Streams: a.Streams}
	cmd := &cobra.Command{
		Use: "publish QUEUE [FILE…]", Short: "publish messages with an id, persistent and confirmed",
		Example: `  strikes publish orders orders.txt
  echo '{"order":17}' | strikes publish orders --content-type application/json
  strikes publish orders --routing-key customer-17 orders.txt
  strikes publish orders --ndjson events.ndjson`,
		Long: `Each line of the files (- or none: of stdin) is one message, without its \n; an
empty line is an empty message. A message without an id gets a UUIDv7. If there
is no message at all, publish says so on stderr and exits with 0.

With --ndjson each line that is not blank is an object with one of "body" (text)
and "body_base64", and any of id, headers, content_type, content_encoding,
correlation_id, reply_to, type, app_id, user_id, priority, expiration (ms, as
text), timestamp (RFC 3339) and routing_key. A header value
{"$amqp":[TYPE,VALUE]} is of a type that JSON does not have, as dead drop and
dead show --json write it. A line that is no such object ends the command with
exit code 2.

A queue with partitions (declare --partitions) needs a routing key for each
message: --routing-key, or "routing_key" in its line. Messages of one key keep
their order. The headers CC and BCC are refused there.

The messages enter the queue in the order of the input. publish stops when one
fails, after those that were sent with it (512 at most), and says how many were
confirmed and which may or may not have arrived.`,
		RunE: func(cmd *cobra.Command, args []string) error {
			return p.run(cmd.Context(), args[0], args[1:])
		},
	}
	flags := cmd.Flags()
	p.AddBroker(cmd)
	flags.StringVar(&p.routingKey, "routing-key", "", "the routing `KEY` of messages that bring none, for a QUEUE with "+
		"partitions")
	flags.BoolVar(&p.ndjson, "ndjson", false, "each line is a JSON object")
	flags.StringVar(&p.contentType, "content-type", "", "`TYPE` of messages that bring none")
	flags.DurationVar(&p.timeout, "timeout", 30*time.Second,
		"give up when a batch (512 messages at most) is not confirmed within this `TIME`")
	cli.FromEnv(flags, "timeout")
	return cmd
}

const (
	// lastConfirms is how long an interrupted publish waits for the confirms of the messages that it sent.
	lastConfirms = 1500 * time.Millisecond

	// lastClose is how long one that failed waits for the confirms that are still to come.
	lastClose = 500 * time.Millisecond
)

func (p *publish) run(ctx context.Context, queue string, files []string) error {
	if p.timeout <= 0 {
		return cli.Refused("timeout", p.timeout, "positive")
	}
	if err := checkFiles(files); err != nil {
		return err
	}
	b, err := p.Broker()
	if err != nil {
		return err
	}
	conn, err := b.Dial(ctx)
	if err != nil {
		return err
	}
	var of string
	if of, p.partitions, p.unknown = broker.FindPartitions(ctx, conn, queue); of != "" && of != queue {
		connect.Close(conn)
		return cli.Misusef("queue %s is a partition: publish to %s, with a routing key", printable.Name(queue),
			printable.Name(of))
	}
	if p.partitions == 0 && p.unknown == nil { // or the user may not see them
		_, p.unknown = broker.PartitionsOf(ctx, conn, queue)
	}
	p.publisher, err = publisher.New(connect.After(conn, b.Dial), &publisher.Options{ConfirmTimeout: p.timeout,
		Logger: cli.NewLogger(p.Err, false, nil)})
	if err != nil {
		connect.Close(conn)
		return err
	}
	p.queue, p.progress = queue, term.Progress(p.Err)
	if (len(files) == 0 || slices.Contains(files, "-")) && term.IsTerminal(p.In) {
		fmt.Fprintln(p.Err, "each line that you type is a message; Ctrl-D ends the input")
	}
	r := reader{stdin: p.In, parse: jsonl.ParseText, blank: true}
	if p.ndjson {
		r.parse, r.blank = jsonl.ParseMessage, false
	}
	err = p.all(ctx, r, files)
	if p.partitions == 0 && errors.Is(err, publisher.ErrUnroutable) {
		err = fmt.Errorf("%w: %w", b.NoQueue(queue, broker.ErrNotFound), err)
	}
	if err == nil {
		err = p.publisher.Close()
	} else { // which names the undecided messages, and the broker may not confirm them, for example during an alarm
		_ = p.publisher.CloseWithin(lastClose)
	}
	if !p.used { // the publisher dials for the first message
		connect.Close(conn)
	}
	if err == nil && !p.used {
		fmt.Fprintln(p.Err, "the input has no message")
	}
	fmt.Fprintln(p.Err, p.summary())
	return err
}

// all publishes the messages that the reader finds, until that ends, a message fails, or ctx is done. A reader that
// waits for input that does not come is left behind, for nothing ends such a read; the process is about to end.
func (p *publish) all(ctx context.Context, r reader, files []string) error {
	reading, stop := context.WithCancel(ctx)
	defer stop()
	in := newIntake()
	r.put = in.put
	go func() { in.end(r.read(reading, files)) }()
	for {
		batch, err := in.take(ctx)
		if len(batch) == 0 {
			return err
		}
		if err := p.batch(ctx, batch); err != nil {
			return err
		}
		in.done(batch)
	}
}

// batch publishes entries in order. It stops before the first one that has no destination, and returns its error.
// Once ctx is done, the sent messages have a little time left to be confirmed.
func (p *publish) batch(ctx context.Context, entries []entry) error {
	p.used = true
	var msgs []publisher.Message
	var refused error
	for i, e := range entries {
		to, err := p.address(e)
		if err != nil {
			refused, entries = fmt.Errorf("%v: %w", e, err), entries[:i]
			defer p.tell(e, e.msg.MessageId, err)
			break
		}
		if e.msg.ContentType == "" {
			to.ContentType = p.contentType
		}
		msgs = append(msgs, to)
	}
	sending, cancel := pause.Outlive(ctx, lastConfirms, p.timeout)
	defer cancel()
	return cmp.Or(p.count(ctx, entries, msgs, p.publisher.PublishAll(sending, msgs)), refused)
}

// address returns the message of an entry with its destination: a queue, or a partition of it.
func (p *publish) address(e entry) (publisher.Message, error) {
	key := cmp.Or(e.key, p.routingKey)
	switch {
	case p.partitions == 0 && key == "":
		return publisher.Message{Key: p.queue, Publishing: e.msg}, nil
	case p.unknown != nil:
		return publisher.Message{}, p.unknown
	case p.partitions == 0:
		return publisher.Message{}, cli.Misusef("queue %s has no partitions, so it takes no routing key; leave out "+
			`--routing-key and "routing_key"`, printable.Name(p.queue))
	}
	to, err := publisher.Partitions{Queue: p.queue, N: p.partitions}.Message(key, e.msg)
	if err != nil {
		err = cli.Misusef(`%w (the key is --routing-key, or "routing_key" with --ndjson)`, err)
	}
	return to, err
}

// count takes the outcome of a batch. It returns the error of the message that the broker refused, because its refusal
// ends the channel and fails the others. If none was refused, it returns that of the first message that failed.
func (p *publish) count(ctx context.Context, entries []entry, msgs []publisher.Message, outcome error) error {
	errs := make([]error, len(entries))
	var failed *publisher.BatchError
	if errors.As(outcome, &failed) {
		copy(errs, failed.Errs)
	}
	var first error
	for i, e := range entries {
		p.tell(e, msgs[i].MessageId, errs[i])
		refused := errors.Is(errs[i], publisher.ErrRefused) && !errors.Is(first, publisher.ErrRefused)
		if errs[i] != nil && first == nil || refused {
			first = fmt.Errorf("%v: %w", e, errs[i])
		}
	}
	p.progress("published", p.confirmed, -1)
	switch {
	case first == nil:
		return nil
	case ctx.Err() != nil:
		return cli.WithCode(first, cli.ExitInterrupted)
	case errors.Is(first, context.DeadlineExceeded):
		return cli.WithCode(first, cli.ExitUnreachable)
	}
	return first
}

// tell counts a message, and notes it if it may or may not be in a queue.
func (p *publish) tell(e entry, id string, err error) {
	var why *publisher.Error
	switch {
	case err == nil:
		p.confirmed++
	case errors.As(err, &why) && why.Undecided:
		if p.undecided++; len(p.unsure) < 5 {
			p.unsure = append(p.unsure, fmt.Sprintf("%v (id %s)", e, printable.Name(id)))
		}
	default:
		p.failed++
	}
}

func (p *publish) summary() string {
	var b strings.Builder
	fmt.Fprintf(&b, "%d confirmed", p.confirmed)
	if p.failed > 0 {
		fmt.Fprintf(&b, ", %d not published", p.failed)
	}
	if p.undecided > 0 {
		fmt.Fprintf(&b, ", %d may or may not be published:", p.undecided)
		for _, message := range p.unsure {
			b.WriteString(" " + message)
		}
		if p.undecided > len(p.unsure) {
			b.WriteString(" …")
		}
	}
	return b.String()
}
