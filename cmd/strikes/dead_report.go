package main

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"strings"

	"github.com/strikesmq/strikes/cmd/strikes/internal/cli"
	"github.com/strikesmq/strikes/cmd/strikes/internal/term"
	"github.com/strikesmq/strikes/deadletter"
	"github.com/strikesmq/strikes/internal/shell"
	"github.com/strikesmq/strikes/publisher"
)

// report reports each dead letter: all of them in JSON, else those that are left.
type report struct {
	cli.Streams
	json *json.Encoder
	left int
	want *wanted

	failed error // the first of printing

	strays, unroutable int // of those left
}

// leftShown is how many of those that are left are named.
const leftShown = 20

// message reports one dead letter.
func (t *report) message(l *deadletter.Message, err error) {
	t.want.saw(l)
	switch {
	case errors.Is(err, deadletter.ErrNoOrigin):
		t.strays++
	case errors.Is(err, publisher.ErrUnroutable):
		t.unroutable++
	}
	if t.json != nil {
		out := map[string]any{"id": l.ID, "fingerprint": l.Fingerprint, "replayed": err == nil, "redelivered": l.Redelivered}
		if err != nil {
			out["error"] = cli.Plain(err)
		}
		t.failed = cmp.Or(t.failed, t.json.Encode(out)) // as of a full disk; a closed pipe ends the process by SIGPIPE
		return
	}
	ends := !errors.Is(err, deadletter.ErrNoOrigin) && !errors.Is(err, publisher.ErrUnroutable) &&
		!errors.Is(err, publisher.ErrInvalid)
	if err == nil || ends { // what ends the replay is reported at its end
		return
	}
	if t.left++; t.left <= leftShown {
		fmt.Fprintf(t.Err, "not replayed: %s\n", term.Printable(cli.Plain(err), ""))
	}
}

// noQueue makes an error a wrong argument if all were to go to one queue, and that is not there.
func (t *report) noQueue(q *dlq, to *deadletter.Target, err error) error {
	if t.unroutable == 0 || to == nil || to.Exchange != "" {
		return err
	}
	return cli.Misusef("there is no queue %q in virtual host %q (strikes declare %s makes it): %w", to.Key, q.broker.VHost,
		shell.Operands(to.Key), err)
}

// why says why some were left, and what to do.
func (t *report) why() string {
	var b strings.Builder
	if t.strays > 0 {
		fmt.Fprintf(&b, "\n%d left because they do not say where they died; send them with --key QUEUE or --exchange "+
			"EXCHANGE", t.strays)
	}
	if t.unroutable > 0 {
		fmt.Fprintf(&b, "\n%d left because their destination does not exist or leads to no queue", t.unroutable)
	}
	return b.String()
}

// name names the first of some messages.
func name(b *strings.Builder, matter string, n int, ids []string) {
	if n == 0 {
		return
	}
	fmt.Fprintf(b, "\n%d %s:", n, matter)
	for i, id := range ids {
		if i == 5 {
			b.WriteString(" …")
			break
		}
		b.WriteString(" " + term.Shown(id))
	}
}
