package ops

import (
	"fmt"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/deadletter"
)

// Keep appends dead letters of a dead-letter queue to a file, a line each, as a replay would publish them. It returns
// nil once they are on disk. Encode also gets the PartitionKey.
func Keep(f *os.File, encode func(amqp.Publishing, string) ([]byte, error), from string,
	messages []*deadletter.Message) error {
	for _, m := range messages {
		line, err := encode(m.ForReplay(from), m.PartitionKey())
		if err != nil {
			return fmt.Errorf("message %q cannot be written to the file: %w", m.Name(), err)
		}
		if _, err := f.Write(append(line, '\n')); err != nil { // one write, so that nothing can come into the line
			return err
		}
	}
	return f.Sync()
}

// SyncDir makes sure that a new file in a directory has its name on disk.
func SyncDir(name string) error {
	d, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
