package ops

import (
	"fmt"
	"io"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/deadletter"
)

// Keep appends dead letters of a dead-letter queue to a file, a line each, as a replay would publish them. It returns
// nil once they are on disk. Encode also gets the PartitionKey.
func Keep(f *os.File, encode func(amqp.Publishing, string) ([]byte, error), from string,
	messages []*deadletter.Message) error {
	var lines []byte
	for _, m := range messages {
		line, err := encode(m.ForReplay(from), m.PartitionKey())
		if err != nil {
			return fmt.Errorf("message %q cannot be written to the file: %w", m.Name(), err)
		}
		lines = append(append(lines, line...), '\n')
	}
	return Append(f, lines)
}

// Append writes lines to the end of a file, and returns nil once they are on disk. After an error, such as of a full
// disk, the file is as before.
func Append(f *os.File, lines []byte) error {
	end, unsized := f.Seek(0, io.SeekEnd)
	_, err := f.Write(lines) // one write, so that nothing can come into a line
	if err == nil {
		err = f.Sync()
	}
	if err != nil && unsized == nil { // a pipe has no size
		_ = f.Truncate(end) // else the next drop would write behind half a line
	}
	return err
}

// SyncDir makes sure that a new file in a directory has its name on disk.
func SyncDir(name string) error {
	d, err := os.Open(name)
	if err != nil {
		return err
	}
	defer d.Close()
	return d.Sync()
}
