package inbox

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/strikesmq/strikes/consumer"
	"github.com/strikesmq/strikes/internal/panics"
	"github.com/strikesmq/strikes/internal/poll"
	"github.com/strikesmq/strikes/internal/proxy"
)

// patience is a timeout of a handler that is not about to time out.
const patience = time.Minute

// sometime matches outcomes of which the last comes after any number of attempts that waited for too long.
var sometime = regexp.MustCompile(`^\[(not-counted )*(ack|dead-letter)\]$`)

var errNoCustomer = errors.New("there is no such customer")

func TestInbox(t *testing.T) {
	for _, s := range subjects {
		t.Run(s.Name, func(t *testing.T) {
			t.Parallel()
			s.test(t)
		})
	}
}

// test runs all cases on a subject.
func (s Subject) test(t *testing.T) {
	for _, c := range []struct {
		name string
		test func(*bench, *testing.T)
	}{
		{"the first delivery, then a duplicate", (*bench).duplicate},
		{"a replay has a new generation, and is done again", (*bench).replay},
		{"an error of the work is counted, and rolls back", (*bench).workFails},
		{"a panic in the work is counted, and rolls back", (*bench).workPanics},
		{"a work that passes over an error of the database", (*bench).workPassesOver},
		{"a work that ends its transaction", (*bench).workEnds},
		{"a work that leaves rows open", (*bench).workLeavesRows},
		{"a lost connection is not counted", (*bench).connectionLost},
		{"a lock timeout is not counted", (*bench).lockTimeout},
		{"a statement that passes a deadline of the work is counted", (*bench).ownDeadline},
		{"an error that quotes one of a database is counted", (*bench).quotedNumber},
		{"a commit whose reply is lost is not counted, and not done again", (*bench).commitUnanswered},
		{"a commit that hangs is not counted, and not done again", (*bench).commitHangs},
		{"a second process waits at the key", (*bench).secondWaits},
		{"a second process goes on when the first dies", (*bench).firstDies},
		{"a second process waits for no longer than Wait", (*bench).waitIsOver},
		{"ids of every byte and of 255 bytes", (*bench).ids},
		{"an id that is too long", (*bench).idTooLong},
		{"no id", (*bench).noID},
		{"a Key of its own", (*bench).key},
		{"a missing table", (*bench).missingTable},
		{"processes that create the table at once", (*bench).schemaAtOnce},
		{"a process that starts beside a running handler", (*bench).schemaAgain},
		{"a read-only database", (*bench).readOnly},
		{"an idle transaction", (*bench).idle},
		{"a cancelled context", (*bench).cancelled},
		{"a handler that passes its deadline", (*bench).deadline},
		{"a handler without a timeout", (*bench).untimed},
		{"a handler with a distant deadline", (*bench).distant},
		{"Forget", (*bench).forget},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			c.test(newBench(t, s, s.Server(t)), t)
		})
	}
}

// expect delivers d to an inbox with default settings, and compares the outcomes.
func (b *bench) expect(t *testing.T, work Work, d amqp.Delivery, want string) (first error) {
	t.Helper()
	return expectOf(t, b.handler(work), d, want)
}

func expectOf(t *testing.T, handler consumer.Handler, d amqp.Delivery, want string) (first error) {
	t.Helper()
	got, err := deliver(t.Context(), patience, handler, d, nil)
	if got != want {
		t.Errorf("message %q: outcomes %s, want %s; the first error: %v", d.MessageId, got, want, err)
	}
	return err
}

// says compares the text of an error.
func says(t *testing.T, err error, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("error %q, want %q in it", err, want)
	}
}

func (b *bench) duplicate(t *testing.T) {
	b.expect(t, b.effect, message("17"), "[ack]")
	b.want(t, 1, 1, 1)
	for range 3 {
		b.expect(t, b.effect, message("17"), "[ack]")
	}
	b.want(t, 1, 1, 1)
	b.expect(t, b.effect, message("18"), "[ack]")
	b.want(t, 2, 2, 2)
}

func (b *bench) replay(t *testing.T) {
	for range 2 {
		b.expect(t, b.effect, message("17"), "[ack]")
		b.expect(t, b.effect, replayed("17"), "[ack]")
	}
	b.want(t, 2, 2, 2)
}

func (b *bench) workFails(t *testing.T) {
	err := b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		return errors.Join(b.effect(ctx, tx, d), errNoCustomer)
	}, message("17"), "[dead-letter]")
	if !errors.Is(err, errNoCustomer) {
		t.Errorf("%v", err)
	}
	b.want(t, 0, 0, 1)
	err = b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		b.worked.Add(1)
		return tx.Exec(ctx, "INSERT INTO no_such_table VALUES (1)")
	}, message("17"), "[dead-letter]")
	says(t, err, "no_such_table")
	b.want(t, 0, 0, 2)
	b.expect(t, b.effect, message("17"), "[ack]")
	b.want(t, 1, 1, 3)
}

func (b *bench) workPanics(t *testing.T) {
	for range 20 { // more than the pool has connections
		b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
			need(t, b.effect(ctx, tx, d))
			panic("no customer")
		}, message("17"), "[dead-letter]")
	}
	b.want(t, 0, 0, 20)
}

func (b *bench) workPassesOver(t *testing.T) {
	want, effects := "[ack]", 1
	if b.Strict {
		want, effects = "[dead-letter]", 0
	}
	b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		need(t, b.effect(ctx, tx, d))
		_ = tx.Exec(ctx, "INSERT INTO no_such_table VALUES (1)")
		return nil
	}, message("17"), want)
	b.want(t, effects, effects, 1)
}

func (b *bench) workEnds(t *testing.T) {
	for _, err := range []error{nil, errNoCustomer} {
		b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
			need(t, tx.End(ctx))
			return err
		}, message(fmt.Sprint(err)), "[dead-letter]")
	}
	for _, end := range []string{"COMMIT", "ROLLBACK"} { // the driver does not notice them
		b.expect(t, func(ctx context.Context, tx Tx, _ amqp.Delivery) error {
			return errors.Join(tx.Exec(ctx, end), errNoCustomer)
		}, message(end), "[dead-letter]")
	}
}

// workLeavesRows: an error of the work is counted although pgx cannot send a ROLLBACK behind the rows.
func (b *bench) workLeavesRows(t *testing.T) {
	b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		need(t, b.effect(ctx, tx, d))
		need(t, tx.Leave(ctx, "SELECT id FROM effects"))
		return errNoCustomer
	}, message("17"), "[dead-letter]")
	b.want(t, 0, 0, 1)
}

// through is a pool whose connections pass a proxy.
func (b *bench) through(t *testing.T) (Pool, *proxy.Proxy) {
	t.Helper()
	p, err := proxy.New(context.WithoutCancel(t.Context()), b.addr)
	need(t, err)
	t.Cleanup(p.Close)
	return b.open(t, p.Addr(), b.name), p
}

func (b *bench) connectionLost(t *testing.T) {
	db, link := b.through(t)
	cut := false
	handler := db.Handler(Settings{Queue: queue}, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		need(t, b.effect(ctx, tx, d))
		if !cut {
			cut = true
			link.Cut()
		}
		return tx.Exec(ctx, "INSERT INTO effects (id) VALUES ('another')")
	})
	expectOf(t, handler, message("17"), "[not-counted ack]")
	b.want(t, 2, 1, 2)
}

func (b *bench) lockTimeout(t *testing.T) {
	const lock = "UPDATE effects SET id = 'locked' WHERE id = 'held'"
	b.exec(t, "INSERT INTO effects (id) VALUES ('held')")
	locked, free, done := make(chan struct{}), make(chan struct{}), make(chan struct{})
	go func() {
		defer close(done)
		_, _ = deliver(t.Context(), patience, b.handler(func(ctx context.Context, tx Tx, _ amqp.Delivery) error {
			err := tx.Exec(ctx, lock)
			close(locked)
			<-free
			return errors.Join(err, errNoCustomer)
		}), message("16"), nil)
	}()
	<-locked
	got, err := deliver(t.Context(), patience, b.handler(func(ctx context.Context, tx Tx, _ amqp.Delivery) error {
		b.worked.Add(1)
		return errors.Join(tx.Exec(ctx, b.Impatient), tx.Exec(ctx, lock))
	}), message("17"), func() { close(free); <-done })
	if got != "[not-counted ack]" {
		t.Errorf("%s, %v", got, err)
	}
	b.want(t, 1, 1, 2)
}

// ownDeadline: drivers close a connection whose statement is cancelled, so the ROLLBACK fails.
func (b *bench) ownDeadline(t *testing.T) {
	err := b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		need(t, b.effect(ctx, tx, d))
		ctx, cancel := context.WithTimeout(ctx, 200*time.Millisecond)
		defer cancel()
		return tx.Exec(ctx, b.Slow)
	}, message("17"), "[dead-letter]")
	if err == nil {
		t.Error("no error")
	}
	b.want(t, 0, 0, 1)
}

// quotedNumber has the work return the error of another system, whose text is like that of a deadlock.
func (b *bench) quotedNumber(t *testing.T) {
	b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		return errors.Join(b.effect(ctx, tx, d), errors.New("Error 1213 (40001): the partner refuses"))
	}, message("17"), "[dead-letter]")
	b.want(t, 0, 0, 1)
}

func (b *bench) commitUnanswered(t *testing.T) {
	db, link := b.through(t)
	committed := make(chan error, 1)
	handler := db.Handler(Settings{Queue: queue}, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		err := b.effect(ctx, tx, d)
		link.Mute(true)
		go func() {
			committed <- poll.Until(t.Context(), time.Minute, "the commit", func() error {
				n, err := b.db.Int(t.Context(), "SELECT count(*) FROM effects")
				if err == nil && n == 0 {
					err = errors.New("no effect yet")
				}
				return err
			})
			link.Mute(false)
		}()
		return err
	})
	says(t, expectOf(t, handler, message("17"), "[not-counted ack]"), "committing the work")
	need(t, <-committed)
	b.want(t, 1, 1, 1)
}

// commitHangs lets the server answer again once the handler has given up, or after a minute.
func (b *bench) commitHangs(t *testing.T) {
	db, link := b.through(t)
	handler := db.Handler(Settings{Queue: queue}, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		err := b.effect(ctx, tx, d)
		link.Mute(true)
		time.AfterFunc(time.Minute, func() { link.Mute(false) })
		return err
	})
	got, err := deliver(t.Context(), 5*time.Second, func(ctx context.Context, d amqp.Delivery) error {
		defer link.Mute(false)
		return handler(ctx, d)
	}, message("17"), nil)
	if got != "[not-counted ack]" {
		t.Errorf("%s, %v", got, err)
	}
	says(t, err, "committing the work")
	b.want(t, 1, 1, 1)
}

// meanwhile delivers message 17 to a handler of a pool of its own, while another process has it.
func (b *bench) meanwhile(t *testing.T, in Settings) (outcomes <-chan string) {
	t.Helper()
	handler, out := b.open(t, b.addr, b.name).Handler(in, b.effect), make(chan string, 1)
	go func() {
		got, _ := deliver(t.Context(), patience, handler, message("17"), nil)
		out <- got
	}()
	return out
}

func (b *bench) secondWaits(t *testing.T) {
	var second <-chan string
	b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		second = b.meanwhile(t, Settings{Queue: queue})
		b.awaitWaiting(t)
		return b.effect(ctx, tx, d)
	}, message("17"), "[ack]")
	if got := <-second; got != "[ack]" {
		t.Errorf("the second: %s", got)
	}
	b.want(t, 1, 1, 1)
}

func (b *bench) firstDies(t *testing.T) {
	db, link := b.through(t)
	handler := db.Handler(Settings{Queue: queue}, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		need(t, b.effect(ctx, tx, d))
		second := b.meanwhile(t, Settings{Queue: queue})
		b.awaitWaiting(t)
		link.Cut()
		if got := <-second; got != "[ack]" {
			t.Errorf("the second: %s", got)
		}
		return nil
	})
	expectOf(t, handler, message("17"), "[not-counted ack]")
	b.want(t, 1, 1, 2)
}

func (b *bench) waitIsOver(t *testing.T) {
	first, free := make(chan string, 1), make(chan struct{})
	begun := make(chan struct{})
	go func() {
		got, _ := deliver(t.Context(), patience, b.handler(func(ctx context.Context, tx Tx, d amqp.Delivery) error {
			close(begun)
			<-free
			return b.effect(ctx, tx, d)
		}), message("17"), nil)
		first <- got
	}()
	<-begun
	handler := b.db.Handler(Settings{Queue: queue, Wait: 200 * time.Millisecond}, b.effect)
	got, err := deliver(t.Context(), patience, handler, message("17"), func() {
		close(free)
		if got := <-first; got != "[ack]" {
			t.Errorf("the first: %s", got)
		}
	})
	if got == "[ack]" || !sometime.MatchString(got) {
		t.Errorf("the second: %s", got)
	}
	says(t, err, "another process has had the message for 200ms")
	b.want(t, 1, 1, 1)
}

func (b *bench) ids(t *testing.T) {
	ids := []string{strings.Repeat("x", 255), strings.Repeat("x", 254) + "y", strings.Repeat("\xff", 255), "a", "A", "a ",
		"a\x00", "ä", "a\u0308"}
	for c := range 256 {
		ids = append(ids, "id "+string([]byte{byte(c)}))
	}
	for range 2 {
		for _, id := range ids {
			b.expect(t, b.effect, message(id), "[ack]")
		}
	}
	b.want(t, len(ids), len(ids), len(ids))
}

func (b *bench) idTooLong(t *testing.T) {
	key := strings.Repeat("x", b.LongestID)
	handler := b.db.Handler(Settings{Queue: queue, Key: func(d amqp.Delivery) string { return key + d.MessageId[1:] }},
		b.effect)
	says(t, expectOf(t, handler, message("xy"), "[dead-letter]"), fmt.Sprintf("the id has %d bytes", b.LongestID+1))
	b.want(t, 0, 0, 0)
	for range 2 { // it is as long as an id may be
		expectOf(t, handler, message("x"), "[ack]")
	}
	b.want(t, 1, 1, 1)
}

func (b *bench) noID(t *testing.T) {
	d := message("")
	d.Redelivered = false
	says(t, b.expect(t, b.effect, d, "[dead-letter]"), "the message has no id")
	b.want(t, 0, 0, 0)
}

func (b *bench) key(t *testing.T) {
	correlation := func(d amqp.Delivery) string { return d.CorrelationId }
	handler := b.db.Handler(Settings{Queue: queue, Key: correlation}, b.effect)
	for _, id := range []string{"17", "18"} {
		d := message(id)
		d.CorrelationId = "invoice"
		expectOf(t, handler, d, "[ack]")
	}
	b.want(t, 1, 1, 1)
}

func (b *bench) missingTable(t *testing.T) {
	b.exec(t, "DROP TABLE strikes_inbox")
	got, err := deliver(t.Context(), patience, b.handler(b.effect), message("17"), func() { b.exec(t, b.Schema) })
	if got != "[not-counted ack]" {
		t.Errorf("%s", got)
	}
	says(t, err, "create the table with ")
	b.want(t, 1, 1, 1)
	b.exec(t, b.Schema) // again
}

func (b *bench) schemaAtOnce(t *testing.T) {
	for range 20 {
		b.exec(t, "DROP TABLE strikes_inbox")
		var starting panics.Group
		for range 4 {
			starting.Go(func() error { return b.db.Exec(t.Context(), b.Schema) })
		}
		need(t, starting.Wait())
	}
	b.expect(t, b.effect, message("17"), "[ack]")
	b.want(t, 1, 1, 1)
}

// schemaAgain: the table is there, so its creation waits for no transaction.
func (b *bench) schemaAgain(t *testing.T) {
	b.expect(t, func(ctx context.Context, tx Tx, d amqp.Delivery) error {
		starting, cancel := context.WithTimeout(ctx, patience/4)
		defer cancel()
		if err := b.db.Exec(starting, b.Schema); err != nil {
			t.Errorf("creating the table again: %v", err)
		}
		return b.effect(ctx, tx, d)
	}, message("17"), "[ack]")
	b.want(t, 1, 1, 1)
}

func (b *bench) readOnly(t *testing.T) {
	if b.ReadWrite {
		t.Skip("the driver begins each transaction READ WRITE")
	}
	db, err := b.Open(t.Context(), b.addr, b.name, true)
	need(t, err)
	defer db.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, err := deliver(ctx, patience, db.Handler(Settings{Queue: queue}, b.effect), message("17"), cancel)
	if got != "[not-counted leave]" {
		t.Errorf("%s", got)
	}
	says(t, err, "read-only")
	b.want(t, 0, 0, 0)
}

func (b *bench) idle(t *testing.T) {
	if b.Idle == "" {
		t.Skip("it has no such setting")
	}
	b.expect(t, func(ctx context.Context, tx Tx, _ amqp.Delivery) error {
		text, err := tx.Text(ctx, b.Idle)
		need(t, err)
		if ms, err := strconv.Atoi(text); err != nil || ms > 60_000 || ms < 30_000 {
			t.Errorf("the transaction may be idle for %s ms, want the rest of a minute", text)
		}
		return nil
	}, message("17"), "[ack]")
	text := ""
	plain := b.db.Plain(func(ctx context.Context, tx Tx, _ amqp.Delivery) (err error) {
		text, err = tx.Text(ctx, b.Idle)
		return err
	})
	if need(t, plain(t.Context(), message("17"))); text != "0" {
		t.Errorf("another transaction may be idle for %s ms, want 0: without end", text)
	}
}

func (b *bench) cancelled(t *testing.T) {
	for i, obeys := range []bool{true, false} {
		ctx, cancel := context.WithCancel(t.Context())
		got, err := deliver(ctx, patience, b.handler(func(ctx context.Context, tx Tx, d amqp.Delivery) error {
			need(t, b.effect(ctx, tx, d))
			cancel()
			<-ctx.Done()
			if obeys {
				return ctx.Err()
			}
			return nil
		}), message("17"), nil)
		if got != "[leave]" {
			t.Errorf("%s, %v", got, err)
		}
		b.want(t, 0, 0, i+1)
	}
	b.expect(t, b.effect, message("17"), "[ack]")
	b.want(t, 1, 1, 3)
}

func (b *bench) deadline(t *testing.T) {
	for i, end := range []func(error) error{func(err error) error { return err }, func(error) error { return nil }} {
		work := func(ctx context.Context, tx Tx, d amqp.Delivery) error {
			_ = b.effect(ctx, tx, d)
			<-ctx.Done()
			return end(context.Cause(ctx))
		}
		got, err := deliver(t.Context(), time.Second, b.handler(work), message("17"), nil)
		if !sometime.MatchString(got) || !strings.HasSuffix(got, "dead-letter]") {
			t.Errorf("%s, %v", got, err)
		}
		b.want(t, 0, 0, i+1)
	}
}

// untimed: the server's own timeouts hold.
func (b *bench) untimed(t *testing.T) { b.timed(t, -1) }

// distant: PostgreSQL has no timeout of more than 24.8 days.
func (b *bench) distant(t *testing.T) { b.timed(t, 30*24*time.Hour) }

func (b *bench) timed(t *testing.T, timeout time.Duration) {
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	got, err := deliver(ctx, timeout, b.handler(b.effect), message("17"), cancel)
	if got != "[ack]" {
		t.Errorf("%s, %v", got, err)
	}
	b.want(t, 1, 1, 1)
}

func (b *bench) forget(t *testing.T) {
	for i := range 3 {
		b.expect(t, b.effect, message(fmt.Sprint(i)), "[ack]")
	}
	expectOf(t, b.db.Handler(Settings{Queue: "another"}, b.effect), message("0"), "[ack]")
	if n, err := b.db.Forget(t.Context(), queue, time.Hour); n != 0 || err != nil {
		t.Errorf("forgot %d marks of this hour, %v", n, err)
	}
	if _, err := b.db.Forget(t.Context(), queue, 0); err == nil {
		t.Error("it forgets all marks without an error")
	}
	b.want(t, 4, 4, 4)
	forgotten := int64(0)
	need(t, poll.Until(t.Context(), time.Minute, "old marks", func() error {
		n, err := b.db.Forget(t.Context(), queue, time.Millisecond)
		if forgotten += n; err == nil && forgotten < 3 {
			err = fmt.Errorf("%d were forgotten", forgotten)
		}
		return err
	}))
	b.want(t, 4, 1, 4)
	var values bytes.Buffer
	for i := range 2500 {
		fmt.Fprintf(&values, ",('%s','%d','0',0)", queue, i)
	}
	b.exec(t, "INSERT INTO strikes_inbox (queue, id, generation, fence) VALUES "+values.String()[1:])
	if n, err := b.db.Forget(t.Context(), queue, time.Microsecond); n != 2500 || err != nil {
		t.Errorf("forgot %d marks, %v", n, err)
	}
}
