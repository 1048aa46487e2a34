package mysql

import (
	"cmp"
	"context"
	"database/sql"
	"database/sql/driver"
	"errors"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Save is that of counter.Store. The change is decided here, between two round trips of one transaction. The first
// locks the documents that the change reads or writes, and returns their versions. The second writes and commits.
//
// The transaction is READ COMMITTED, which locks the rows that it reads and no gaps. So each document that must stay
// as it is needs a row, also one that must stay absent: Save inserts an empty row for it, and begins again. A document
// that is to be written and has no row is inserted without ON DUPLICATE KEY. If another process was first, the
// transaction fails, and Save begins again. All rows that the change depends on are thus locked from before it is
// decided until it is committed, and Saves are serializable. Locks are taken in the order of names, first the shared
// ones. Saves that deadlock all the same begin again.
func (s *Store) Save(ctx context.Context, of counter.Queue, change counter.Change) (bool, error) {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	for {
		saved, err := s.saveOnce(ctx, planOf(s.base.Key(of), change))
		if err == nil || !passes(err) || ctx.Err() != nil {
			return saved, s.base.Failed(err)
		}
	}
}

// saveOnce takes a plan through its transaction.
func (s *Store) saveOnce(ctx context.Context, p *plan) (saved bool, err error) {
	conn, err := s.db.Conn(ctx)
	if err != nil {
		return false, err
	}
	defer conn.Close()
	defer func() {
		if err != nil {
			s.rollback(ctx, conn, err)
		}
	}()
	if err := s.lock(ctx, conn, p); err != nil {
		return false, err
	}
	if !p.decide() {
		_, err = conn.ExecContext(ctx, "ROLLBACK")
		return false, err
	}
	if missing := p.missing(); missing != nil {
		_, err := conn.ExecContext(ctx, missing.sql.String(), missing.args...)
		return false, cmp.Or(err, errAgain)
	}
	q := p.writes().add("COMMIT")
	if _, err = conn.ExecContext(ctx, q.sql.String(), q.args...); err != nil {
		return false, err
	}
	sqlstore.Saved(p.change.Docs, p.version)
	return true, nil
}

// errAgain says that nothing was saved: a row was missing, and is there now.
var errAgain = errors.New("rows were missing")

// rollback ends the transaction of a connection, or the connection: also that to a server which is read-only, because
// another one may be the primary by now.
func (s *Store) rollback(ctx context.Context, conn *sql.Conn, because error) {
	ctx, cancel := s.base.Within(context.WithoutCancel(ctx))
	defer cancel()
	if _, err := conn.ExecContext(ctx, "ROLLBACK"); err != nil || sqlstore.Matches(readOnly, codeOf(because)) {
		_ = conn.Raw(func(any) error { return driver.ErrBadConn }) // the pool closes it
	}
}

// lock begins a transaction, and locks and reads the rows of the plan.
func (s *Store) lock(ctx context.Context, conn *sql.Conn, p *plan) error {
	const sel = "SELECT name, version, expires, "
	const from = " FROM strikes_doc FORCE INDEX (PRIMARY) WHERE queue = ? AND name"
	q := new(query).add("SET TRANSACTION ISOLATION LEVEL READ COMMITTED; START TRANSACTION; ")
	if names := p.names(func(r *row) bool { return !r.alone }); len(names) > 0 {
		q.add(sel+"''"+from, p.queue).in(names).add(" ORDER BY name LOCK IN SHARE MODE; ")
	}
	if names := p.names(func(r *row) bool { return r.alone }); len(names) > 0 {
		q.add(sel)
		if added := p.names(func(r *row) bool { return r.added }); len(added) > 0 {
			q.add("if(name").in(added).add(", data, '')")
		} else {
			q.add("''")
		}
		q.add(from, p.queue).in(names).add(" ORDER BY name FOR UPDATE; ")
	}
	q.add("SELECT NULL, 0, " + micros + " DIV 1000, ''")
	return s.each(ctx, conn, q, func(rows *sql.Rows, _ int) error {
		var name, data sql.RawBytes
		var version, expires int64
		if err := rows.Scan(&name, &version, &expires, &data); err != nil {
			return err
		}
		if name == nil {
			p.now = expires
			return nil
		}
		r := p.rows[string(name)]
		r.there, r.version, r.expires, r.data = true, version, expires, string(data)
		return nil
	})
}
