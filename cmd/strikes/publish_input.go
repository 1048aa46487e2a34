package main

import (
	"bufio"
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/internal/printable"
)

// maxLine is enough for 128 MiB, the largest message that RabbitMQ 3.x takes by default, in base64.
const maxLine = 192 << 20

// entry is one message and where it came from.
type entry struct {
	source string
	line   int
	msg    amqp.Publishing
	key    string // the routing key that the line has
}

func (e entry) String() string { return fmt.Sprintf("%s:%d", printable.Name(e.source), e.line) }

// The bounds of a batch. A larger message is one by itself.
const (
	batchEntries = 512
	batchBytes   = 16 << 20
)

// reader turns each line of the files into a message. It collects messages while the buffer holds a whole line, so that
// slow input is published line by line and fast input in batches.
type reader struct {
	stdin io.Reader
	parse jsonl.Parse
	blank bool // an empty line is a message as well
	put   func(context.Context, []entry) error

	batch []entry
	size  int // of its bodies
}

// read reads the files one after the other; none, or the name -, is stdin. It hands on the messages
// before a wrong line.
func (r *reader) read(ctx context.Context, files []string) (err error) {
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		if err = r.file(ctx, name); err != nil {
			break
		}
	}
	return cmp.Or(r.flush(ctx), err)
}

func (r *reader) flush(ctx context.Context) error {
	if len(r.batch) == 0 {
		return nil
	}
	batch := r.batch
	r.batch, r.size = nil, 0
	return r.put(ctx, batch)
}

// checkFiles refuses files that are not there, before anything is published. It does not open them: one may be a pipe.
func checkFiles(names []string) error {
	for _, name := range names {
		if name == "-" {
			continue
		}
		info, err := os.Stat(name)
		switch {
		case err != nil:
			return cli.Misuse(err)
		case info.IsDir():
			return cli.Misusef("%s is a directory: give files of messages", printable.Name(name))
		}
	}
	return nil
}

func (r *reader) file(ctx context.Context, name string) error {
	if name == "-" {
		return r.lines(ctx, "stdin", r.stdin)
	}
	f, err := os.Open(name) //nolint:gosec // the user names it
	if err != nil {
		return cli.Misuse(err)
	}
	defer f.Close()
	return r.lines(ctx, name, f)
}

func (r *reader) lines(ctx context.Context, source string, from io.Reader) error {
	buffered := bufio.NewReaderSize(from, 256<<10)
	for n := 1; ctx.Err() == nil; n++ {
		here, _ := buffered.Peek(buffered.Buffered())
		// Without a whole line in the buffer the next read may wait.
		if !bytes.Contains(here, []byte("\n")) || len(r.batch) == batchEntries || r.size >= batchBytes {
			if err := r.flush(ctx); err != nil {
				return err
			}
		}
		line, err := readLine(buffered, maxLine)
		at := entry{source: source, line: n}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%v: %w", at, err)
		}
		if len(line) == 0 && !r.blank {
			continue
		}
		if at.msg, at.key, err = r.parse(line); err != nil {
			return cli.Misusef("%v: %w", at, err)
		}
		r.batch, r.size = append(r.batch, at), r.size+len(at.msg.Body)
	}
	return ctx.Err()
}

// readLine returns the next line without its \n, in memory of its own, up to so many bytes; io.EOF if there is none.
func readLine(r *bufio.Reader, most int) ([]byte, error) {
	var line []byte
	for {
		part, err := r.ReadSlice('\n')
		if len(line)+len(part) > most {
			return nil, cli.Misusef("the line is longer than %d bytes", most)
		}
		line = append(line, part...)
		switch {
		case errors.Is(err, bufio.ErrBufferFull):
		case errors.Is(err, io.EOF) && len(line) > 0, err == nil:
			return bytes.TrimSuffix(line, []byte("\n")), nil
		default:
			return nil, err
		}
	}
}
