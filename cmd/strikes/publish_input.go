package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"os"

	amqp "github.com/rabbitmq/amqp091-go"
	"golang.org/x/sync/semaphore"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/jsonl"
	"github.com/strikesmq/strikes/internal/printable"
)

// maxLine is enough for 128 MiB, the largest message that RabbitMQ 3.x takes by default, in base64.
const maxLine = 192 << 20

type entry struct {
	source string
	line   int
	msg    amqp.Publishing
	key    string // the routing key that the line has
}

func (e entry) String() string { return fmt.Sprintf("%s:%d", printable.Name(e.source), e.line) }

// reader turns files into messages, a line each.
type reader struct {
	stdin io.Reader
	parse jsonl.Parse
	blank bool // an empty line is a message as well
	put   func(context.Context, entry) error
}

// read reads the files one after the other; none, or the name -, is stdin.
func (r reader) read(ctx context.Context, files []string) error {
	if len(files) == 0 {
		files = []string{"-"}
	}
	for _, name := range files {
		if err := r.file(ctx, name); err != nil {
			return err
		}
	}
	return nil
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

func (r reader) file(ctx context.Context, name string) error {
	if name == "-" {
		return r.lines(ctx, "stdin", r.stdin)
	}
	f, err := os.Open(name)
	if err != nil {
		return cli.Misuse(err)
	}
	defer f.Close()
	return r.lines(ctx, name, f)
}

func (r reader) lines(ctx context.Context, source string, from io.Reader) error {
	buffered := bufio.NewReaderSize(from, 64<<10)
	for n := 1; ctx.Err() == nil; n++ {
		line, err := readLine(buffered, maxLine)
		at := entry{source: source, line: n}
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return fmt.Errorf("%v: %w", at, err)
		}
		if len(bytes.TrimSpace(line)) == 0 && !r.blank { // \r, if the lines end in \r\n
			continue
		}
		if at.msg, at.key, err = r.parse(line); err != nil {
			return cli.Misusef("%v: %w; this line and those after it are not published", at, err)
		}
		if err := r.put(ctx, at); err != nil {
			return err
		}
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

const (
	intakeBytes = 32 << 20 // that may wait to be published, unless a single message is larger
	entryBytes  = 64 << 10 // the weight of an entry beside its body, so that there are at most 512
)

// intake hands entries from the reader to the publisher: all that have come, together, so that slow input is published
// line by line and fast input in batches.
type intake struct {
	room  *semaphore.Weighted
	ready chan entry // closed after the last; the room bounds the entries in it
	err   error      // why the reader ended; nil: the input did
}

func newIntake() *intake {
	return &intake{room: semaphore.NewWeighted(intakeBytes), ready: make(chan entry, intakeBytes/entryBytes)}
}

func weight(e entry) int64 { return min(int64(len(e.msg.Body))+entryBytes, intakeBytes) }

// put waits for room. The entry is in memory by then, so one more than fits may be.
func (i *intake) put(ctx context.Context, e entry) error {
	err := i.room.Acquire(ctx, weight(e))
	if err == nil {
		i.ready <- e
	}
	return err
}

func (i *intake) end(err error) {
	i.err = err
	close(i.ready)
}

// take waits for entries and returns all there are. At the end of the input it returns none, and the error that ended
// the input, if any. Once ctx is done it returns the error of ctx.
func (i *intake) take(ctx context.Context) (batch []entry, err error) {
	if err := ctx.Err(); err != nil { // select would choose any of those that are ready
		return nil, err
	}
	select {
	case e, more := <-i.ready:
		if !more {
			return nil, i.err
		}
		batch = append(batch, e)
	case <-ctx.Done():
		return nil, ctx.Err()
	}
	for len(i.ready) > 0 {
		batch = append(batch, <-i.ready)
	}
	return batch, nil
}

// done makes room again once a batch is dealt with.
func (i *intake) done(batch []entry) {
	for _, e := range batch {
		i.room.Release(weight(e))
	}
}
