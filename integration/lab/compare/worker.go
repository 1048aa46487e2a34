package compare

import (
	"context"
	"errors"
	"os"
	"path/filepath"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/integration/internal/ledger"
	"github.com/strikesmq/strikes/integration/internal/work"
	"github.com/strikesmq/strikes/integration/lab/ways"
	"github.com/strikesmq/strikes/internal/audit"
)

// spec is the configuration of a consumer process.
type spec struct {
	ways.Spec
	History string
	Number  int
	Calls   string // URL of the dependency; empty: the handlers call none
}

// runWorker is a consumer process. It notes each act of a handler before the act.
func runWorker(ctx context.Context, s spec) error {
	log, err := ledger.Append(s.History, s.Number)
	if err != nil {
		return err
	}
	c := &ways.Client{Spec: s.Spec, Handle: func(d *amqp.Delivery) error { return handle(log, s, d) }}
	return errors.Join(ways.Find(s.Way).Work(ctx, c), log.Close())
}

func handle(log *ledger.Log, s spec, d *amqp.Delivery) error {
	j := work.Read(d.Body)
	log.Write(audit.Event{Kind: audit.Began, ID: d.MessageId})
	// nothing cancels it
	err := j.Run(context.Background(), func() (int, error) { return countRun(s.History, j.ID()) })
	if err == nil {
		err = work.Call(context.Background(), s.Calls)
	}
	e := audit.Event{Kind: audit.Ended, ID: d.MessageId, Outcome: audit.OK}
	if err != nil {
		e.Outcome = audit.Failed
	}
	log.Write(e)
	return err
}

// countRun leaves a file for an attempt at a message, where all processes see it, and returns which attempt this is.
func countRun(dir, id string) (int, error) {
	file, err := os.CreateTemp(dir, id+".")
	if err != nil {
		return 0, err
	}
	runs, err := filepath.Glob(filepath.Join(dir, id+".*"))
	return len(runs), errors.Join(err, file.Close())
}
