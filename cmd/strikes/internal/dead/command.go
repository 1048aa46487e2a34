// Package dead lists, shows, replays and drops the dead letters of a queue,
// as the command does: each verb has a file.
package dead

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

// RouteMeaning is the help of every command that looks for the dead-letter queue.
const RouteMeaning = "Without --dead-letter-queue the command finds the queue in which the dead letters land, by " +
	"QUEUE's arguments, policies and\n" +
	"bindings. The management API shows these. If it does not, the command assumes QUEUE.dlq, and stderr says so. " +
	"If dead\n" +
	"letters land in several queues, the error names them.\n\n"

// Command is one run of a verb: where the dead letters are, which of them are
// meant, and what each verb adds.
type Command struct {
	cli.Streams
	connect.Flags
	change.Note // Replay and Drop

	DeadLetterQueue            string
	NoStore, Force             bool
	Error, Kind, Group, Origin string
	Lane, LaneHeader           string
	Older, Newer               time.Duration
	JSON                       bool

	Limit           int // List
	Groups, Records bool
	Read            bool // for Groups, even if the store's records answer

	Search int // Show
	Body   bool

	All, DryRun, Yes bool // Replay and Drop
	Max              int

	Exchange, Key     string // Replay
	Window, StopAfter int
	Rate              float64
	Watch             time.Duration

	To          string // Drop
	Undecodable bool
}

// AddTo adds the flags that all verbs share.
func (c *Command) AddTo(cmd *cobra.Command) {
	f := cmd.Flags()
	c.AddBroker(cmd)
	c.AddStore(cmd)
	c.AddManagement(cmd)
	c.AddVHost(cmd)
	AddQueue(f, &c.DeadLetterQueue)
	f.BoolVar(&c.NoStore, "no-store", false, "do not use the store: no counts, no errors of handlers, no stop when "+
		"messages fail again, no refusal of blocked lanes; strikes status may report what is taken off as missing")
	f.BoolVar(&c.Force, "force", false, "read and pick even if that may do harm")
	f.StringVar(&c.Error, "error", "", "only those whose last error contains `TEXT`, in any case")
	f.StringVar(&c.Kind, "kind", "", "only those of a `KIND`: "+strings.Join(kinds(), ", "))
	f.StringVar(&c.Group, "group", "", "only those of the group with this `KEY`, which dead list --groups shows")
	cli.Age(f, &c.Older, "older-than", "only those that died this `TIME` ago, or earlier: 90s, 12h or 7d")
	cli.Age(f, &c.Newer, "newer-than", "only those that died within this `TIME`")
	f.StringVar(&c.Lane, "lane", "", "only those whose header --lane-header has this `VALUE`")
	f.StringVar(&c.LaneHeader, "lane-header", "", "the header `NAME` whose value --lane gives")
	f.StringVar(&c.Origin, "origin", "", "only those that died in `QUEUE`")
	cli.OneOf(cmd, "kind", kinds()...)
}

// AddChange adds the flags of a verb that changes the queue.
func (c *Command) AddChange(cmd *cobra.Command, done string) {
	f := cmd.Flags()
	f.BoolVar(&c.All, "all", false, "all dead letters, if nothing else says which")
	f.IntVar(&c.Max, "max", 0, "stop after `N`; 0: no limit")
	f.BoolVar(&c.DryRun, "dry-run", false, "only say what would be "+done)
	f.BoolVar(&c.Yes, "yes", false, "do not ask; required where there is no terminal to ask at")
	cli.JSON(f, &c.JSON, "print one JSON object a dead letter")
	c.AddAudit(cmd)
}

// AddQueue adds --dead-letter-queue, or --dlq.
func AddQueue(f *pflag.FlagSet, name *string) {
	f.StringVar(name, "dead-letter-queue", "", "the dead-letter queue's `NAME`; --dlq for short")
	cli.FromEnv(f, "dead-letter-queue")
	cli.DefaultText(f, "dead-letter-queue", "found")
}

func kinds() (names []string) {
	for _, k := range deadletter.Kinds() {
		names = append(names, string(k))
	}
	return names
}
