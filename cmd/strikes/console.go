package main

import (
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"strings"

	amqp "github.com/rabbitmq/amqp091-go"
	"github.com/spf13/cobra"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/console"
	"github.com/strikesmq/strikes/internal/inspect"
	"github.com/strikesmq/strikes/ops"
)

func (a *app) consoleCommand() *cobra.Command {
	var o consoleOptions
	cmd := &cobra.Command{
		Use: "console", Short: "serve web pages that show every queue and its dead letters",
		Example: "  strikes console\n  strikes console --allow replay,pause --token-file /etc/strikes/token",
		Long: `Serves pages at --listen and prints their URL. The pages show every queue that
the management API lists, or those of --queue: its retrying messages, its dead
letters and why they died, each message's history, and the doctor's findings.

The pages only read unless --allow names verbs. Each change asks for a reason,
and an audit in the store keeps it. Without --token-file only this machine is
served. With it, browsers ask for the token and a name, and other programs send
"Authorization: Bearer TOKEN". /metrics serves what strikes export serves, to
the same visitors. docs/console.md says how to run it safely.`,
		RunE: func(cmd *cobra.Command, _ []string) error { return a.console(cmd.Context(), o) },
	}
	f := cmd.Flags()
	o.at.addTo(cmd, "127.0.0.1:9463")
	verbs := strings.Split(console.AllVerbs().String(), ",")
	f.StringVar(&o.allow, "allow", "", "let visitors change things: `VERBS` of "+strings.Join(verbs, ", ")+", or all")
	f.StringArrayVar(&o.queues, "queue", nil, "show this `QUEUE` (repeatable); none: all")
	f.StringVar(&o.dropDir, "drop-dir", "", "where the verb drop writes its files: `DIRECTORY`; required for it")
	cli.FromEnv(f, "allow")
	_ = cmd.RegisterFlagCompletionFunc("allow", cobra.FixedCompletions(append(verbs, "all"), // the flag is there
		cobra.ShellCompDirectiveNoFileComp|cobra.ShellCompDirectiveNoSpace))
	o.AddBroker(cmd)
	o.AddStore(cmd)
	o.AddManagement(cmd)
	return cmd
}

type consoleOptions struct {
	connect.Flags

	at             pages
	allow, dropDir string
	queues         []string
}

func (a *app) console(ctx context.Context, o consoleOptions) error {
	if o.allow == "all" {
		o.allow = console.AllVerbs().String()
	}
	token, err := o.at.token()
	if err == nil {
		err = a.checkQueues(ctx, &o.Flags, o.queues)
	}
	if err != nil {
		return err
	}
	allow, err := console.ParseVerbs(o.allow)
	if err != nil {
		return cli.Misusef("--allow: %w", err)
	}
	if allow.Has(console.VerbDrop) && o.dropDir == "" {
		return cli.Misusef("--allow %s lets visitors drop messages, and each drop writes a file first: give its directory "+
			"with --drop-dir, or leave drop out", o.allow)
	}
	b, err := o.Broker()
	if err != nil {
		return err
	}
	store, err := o.Store(ctx)
	if err != nil {
		return err
	}
	defer store.Close()
	figures := collector(b, store)
	figures.Names = o.queues
	need, err := managementOf(ctx, b, o.ManagementURL, o.queues)
	if err != nil {
		return err
	}
	c, err := console.New(console.Options{
		Store: store, Dial: b.Dial, VHost: b.VHost, Management: need.Management, HTTPClient: need.HTTPClient,
		Queues: o.queues, Hosts: o.at.names(), Token: token, Actor: thisUser(), Allow: allow,
		DropDir: o.dropDir, Encode: lineOf, Reword: cli.InFlags,
		Logger: slog.New(slog.NewTextHandler(a.Err, nil)),
	})
	if err != nil {
		return cli.Misuse(err)
	}
	defer c.Close()
	metrics := &exporter{from: figures}
	defer metrics.close()
	mux := http.NewServeMux()
	mux.Handle("/", c)
	mux.Handle("GET /metrics", c.Guard(metrics.handler()))
	return o.at.serve(ctx, mux, a.Out)
}

// managementOf returns the management API at url. If url is empty, it returns the one at the broker's usual address, if
// that answers. Without a management API the console needs the names of queues.
func managementOf(ctx context.Context, b *connect.Broker, url string, queues []string) (need inspect.Need,
	err error) {
	if need.Management = url; url != "" { // the broker may be away
		return need, nil
	}
	err = b.With(ctx, func(conn *amqp.Connection) error {
		var noAPI error
		if need, noAPI = b.Management(ctx, conn, need); noAPI != nil && len(queues) == 0 {
			return withoutAPI(b, fmt.Errorf("%w: %w", ops.ErrNoList, noAPI))
		}
		return nil
	})
	return need, err
}
