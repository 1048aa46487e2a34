package deadletter

import (
	"bufio"
	"context"
	"encoding/gob"
	"errors"
	"fmt"
	"io"
	"os"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"
)

func init() {
	for _, v := range []any{amqp.Table{}, []any{}, time.Time{}, amqp.Decimal{}, void(true)} {
		gob.Register(v)
	}
}

// spool keeps messages in a file of os.TempDir, so that memory does not grow with the queue. The file has no name, and
// is gone with the process. First all are put, then all are taken.
type spool struct {
	file *os.File
	buf  *bufio.Writer
	enc  *gob.Encoder
	dec  *gob.Decoder
}

// spooled is a message in the file.
type spooled struct {
	Message    Message
	Tag        uint64
	Partitions int
}

// void stands for nil, which gob cannot encode among other values.
type void bool

func newSpool() (*spool, error) {
	f, err := os.CreateTemp("", "strikes-dead-")
	if err != nil {
		return nil, fmt.Errorf("deadletter: creating a file for picked messages: %w", err)
	}
	_ = os.Remove(f.Name()) // where an open file cannot be removed, close removes it
	buf := bufio.NewWriterSize(f, 64<<10)
	return &spool{file: f, buf: buf, enc: gob.NewEncoder(buf)}, nil
}

func (s *spool) put(m *Message) error {
	out := spooled{*m, m.tag, m.partitions}
	out.Message.Publishing.Headers, _ = rebuild(m.Publishing.Headers, nil, void(true)).(amqp.Table)
	if err := s.enc.Encode(out); err != nil {
		return fmt.Errorf("deadletter: writing picked messages to a file: %w", err)
	}
	return nil
}

// rewind ends the writing.
func (s *spool) rewind() error {
	err := s.buf.Flush()
	if err == nil {
		_, err = s.file.Seek(0, io.SeekStart)
	}
	if err != nil {
		return fmt.Errorf("deadletter: writing picked messages to a file: %w", err)
	}
	s.dec = gob.NewDecoder(bufio.NewReaderSize(s.file, 64<<10))
	return nil
}

// take returns the next message, nil at the end.
func (s *spool) take(ctx context.Context) (*Message, error) {
	if err := ctx.Err(); err != nil {
		return nil, err
	}
	var in spooled
	switch err := s.dec.Decode(&in); {
	case errors.Is(err, io.EOF):
		return nil, nil
	case err != nil:
		return nil, fmt.Errorf("deadletter: reading picked messages from their file: %w", err)
	}
	in.Message.tag, in.Message.partitions = in.Tag, in.Partitions
	in.Message.Publishing.Headers, _ = rebuild(in.Message.Publishing.Headers, void(true), nil).(amqp.Table)
	return &in.Message, nil
}

func (s *spool) close() {
	_ = s.file.Close()
	_ = os.Remove(s.file.Name())
}

// rebuild copies tables and arrays, with another value for each that was.
func rebuild(v, was, is any) any {
	switch v := v.(type) {
	case amqp.Table:
		out := make(amqp.Table, len(v))
		for key, inner := range v {
			out[key] = rebuild(inner, was, is)
		}
		return out
	case []any:
		out := make([]any, len(v))
		for i, inner := range v {
			out[i] = rebuild(inner, was, is)
		}
		return out
	}
	if v == was {
		return is
	}
	return v
}
