// Takeout removes the message at the head of a queue over AMQP 1.0. RabbitMQ 4 cannot convert some messages to AMQP
// 0.9.1, for example one with a property of type uuid. It closes every AMQP 0.9.1 connection that receives such a
// message with 541, and its management API replies 500. So only an AMQP 1.0 receiver can show the message, or take it
// out.
//
// Stop the consumers of the queue first. Takeout prints the message, asks, and removes it. Unless you answer yes, it
// returns the message to its position.
//
//	go run ./examples/takeout amqp://guest:guest@localhost:5672/ QUEUE
package main

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net/url"
	"os"
	"os/signal"
	"strings"
	"time"

	"github.com/Azure/go-amqp"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if len(os.Args) != 3 {
		fmt.Fprintln(os.Stderr, "usage: takeout amqp[s]://user:password@host:port/vhost QUEUE")
		os.Exit(2)
	}
	if err := takeOut(ctx, os.Args[1], os.Args[2], os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, "takeout:", err)
		os.Exit(1)
	}
}

// receiveTimeout is how long the queue may take to deliver its first message.
const receiveTimeout = 10 * time.Second

// takeOut removes the message at the head of a queue if the answer is yes.
func takeOut(ctx context.Context, rawURL, queue string, answers io.Reader, out io.Writer) error {
	at, err := url.Parse(rawURL)
	if err != nil || at.Host == "" {
		return errors.New("the URL must be amqp[s]://user:password@host:port/vhost") // an error of Parse quotes the password
	}
	options := &amqp.ConnOptions{}
	if vhost := strings.TrimPrefix(at.Path, "/"); vhost != "" {
		options.HostName = "vhost:" + vhost
	}
	at.Path, at.RawPath = "", ""
	conn, err := amqp.Dial(ctx, at.String(), options)
	if err != nil {
		return fmt.Errorf("connecting to %s: %w", at.Redacted(), err)
	}
	defer conn.Close()
	session, err := conn.NewSession(ctx, nil)
	if err != nil {
		return err
	}
	receiver, err := session.NewReceiver(ctx, "/queues/"+url.PathEscape(queue), &amqp.ReceiverOptions{Credit: 1})
	if err != nil {
		return fmt.Errorf("queue %q: %w", queue, err)
	}
	within, cancel := context.WithTimeout(ctx, receiveTimeout)
	defer cancel()
	message, err := receiver.Receive(within, nil)
	if err != nil {
		return fmt.Errorf("queue %q: no message came, so it is empty or a consumer holds it: %w", queue, err)
	}
	show(out, message)
	fmt.Fprintf(out, "Remove it from queue %q? [y/N] ", queue)
	if answer, _ := bufio.NewReader(answers).ReadString('\n'); strings.TrimSpace(answer) != "y" {
		fmt.Fprintln(out, "It returns to its position.")
		return receiver.ReleaseMessage(ctx, message)
	}
	if err := receiver.AcceptMessage(ctx, message); err != nil {
		return fmt.Errorf("queue %q: it may be back: %w", queue, err)
	}
	fmt.Fprintln(out, "Removed.")
	return nil
}

// show prints the properties and the body of the message, quoted because they come from elsewhere.
func show(out io.Writer, m *amqp.Message) {
	if p := m.Properties; p != nil {
		fmt.Fprintf(out, "id:           %q\n", fmt.Sprint(p.MessageID))
		if p.ContentType != nil {
			fmt.Fprintf(out, "content type: %q\n", *p.ContentType)
		}
	}
	for name, value := range m.ApplicationProperties {
		fmt.Fprintf(out, "property:     %q = %q (%T)\n", name, fmt.Sprint(value), value)
	}
	fmt.Fprintf(out, "body:         %q\n", m.GetData())
}
