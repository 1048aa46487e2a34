package main

import (
	"strings"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"github.com/strikesmq/strikes/cmd/strikes/internal/change"
	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/connect"
	"github.com/strikesmq/strikes/deadletter"
)

// deadWhere says where dead letters are.
type deadWhere struct {
	cli.Streams
	connect.Flags

	deadLetterQueue string
	noStore, force  bool
}

// deadFilter says which dead letters are meant.
type deadFilter struct {
	lastError, kind, group, origin string
	lane, laneHeader               string
	older, newer                   time.Duration
}

// deadChange says how the dead-letter queue is changed.
type deadChange struct {
	deadWhere
	deadFilter
	change.Note

	all, dryRun, yes, json bool
	most                   int // --max
}

func (a *app) deadCommand() *cobra.Command {
	cmd := &cobra.Command{
		Use: "dead", Short: "show, replay and drop the dead letters of a queue",
		Example: `  strikes dead list orders --groups
  strikes dead show orders order-17
  strikes dead replay orders order-17`,
		Long: "strikes help dead-letters says where they are, and why they died.",
	}
	cmd.AddCommand(a.deadListCommand(), a.deadShowCommand(), a.deadReplayCommand(), a.deadDropCommand())
	return cmd
}

func (c *deadWhere) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	c.AddBroker(cmd)
	c.AddStore(cmd)
	c.AddManagement(cmd)
	c.AddVHost(cmd)
	addDeadLetterQueue(f, &c.deadLetterQueue)
	f.BoolVar(&c.noStore, "no-store", false, "do not use the store: no counts, no errors of handlers, no stop when "+
		"messages fail again, no refusal of blocked lanes; strikes status may report what is taken off as missing")
	f.BoolVar(&c.force, "force", false, "read and pick even if that may do harm")
}

func (c *deadFilter) addTo(cmd *cobra.Command) {
	f := cmd.Flags()
	f.StringVar(&c.lastError, "error", "", "only those whose last error contains `TEXT`, in any case")
	f.StringVar(&c.kind, "kind", "", "only those of a `KIND`: "+strings.Join(deadKinds(), ", "))
	f.StringVar(&c.group, "group", "", "only those of the group with this `KEY`, which dead list --groups shows")
	cli.Age(f, &c.older, "older-than", "only those that died this `TIME` ago, or earlier: 90s, 12h or 7d")
	cli.Age(f, &c.newer, "newer-than", "only those that died within this `TIME`")
	f.StringVar(&c.lane, "lane", "", "only those whose header --lane-header has this `VALUE`")
	f.StringVar(&c.laneHeader, "lane-header", "", "the header `NAME` whose value --lane gives")
	f.StringVar(&c.origin, "origin", "", "only those that died in `QUEUE`")
	cli.OneOf(cmd, "kind", deadKinds()...)
}

func (c *deadChange) addTo(cmd *cobra.Command, done string) {
	c.deadWhere.addTo(cmd)
	c.deadFilter.addTo(cmd)
	f := cmd.Flags()
	f.BoolVar(&c.all, "all", false, "all dead letters, if nothing else says which")
	f.IntVar(&c.most, "max", 0, "stop after `N`; 0: no limit")
	f.BoolVar(&c.dryRun, "dry-run", false, "only say what would be "+done)
	f.BoolVar(&c.yes, "yes", false, "do not ask; required where there is no terminal to ask at")
	cli.JSON(f, &c.json, "print one JSON object a dead letter")
	c.AddAudit(cmd)
}

// addDeadLetterQueue adds --dead-letter-queue, or --dlq.
func addDeadLetterQueue(f *pflag.FlagSet, name *string) {
	f.StringVar(name, "dead-letter-queue", "", "the dead-letter queue's `NAME`; --dlq for short")
	cli.FromEnv(f, "dead-letter-queue")
	cli.DefaultText(f, "dead-letter-queue", "found")
}

func deadKinds() (names []string) {
	for _, k := range deadletter.Kinds() {
		names = append(names, string(k))
	}
	return names
}
