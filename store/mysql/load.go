package mysql

import (
	"context"
	"database/sql"
	"errors"
	"strconv"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Load is that of counter.Store.
func (s *Store) Load(ctx context.Context, of counter.Queue, names ...string) (now time.Time, _ []counter.Doc, _ error) {
	queue, err := s.queue(of)
	if err != nil {
		return now, nil, err
	}
	q := new(query).add("SELECT " + micros)
	if len(names) > 0 {
		q.add("; SELECT name, data, version, expires FROM strikes_doc FORCE INDEX (PRIMARY) WHERE version > 0 AND "+
			"queue = ? AND name", queue).in(names)
	}
	var at int64
	found := map[string]counter.Doc{}
	err = s.read(ctx, q, func(rows *sql.Rows, set int) error {
		if set == 0 {
			return rows.Scan(&at)
		}
		var name, data sql.RawBytes
		var version, expires int64
		err := rows.Scan(&name, &data, &version, &expires)
		if expires == 0 || expires > at/1000 {
			found[string(name)] = counter.Doc{Name: string(name), Data: string(data), Version: strconv.FormatInt(version, 10),
				Expires: sqlstore.Time(expires)}
		}
		return err
	})
	if err != nil {
		return now, nil, err
	}
	return time.UnixMicro(at).UTC(), sqlstore.Docs(names, found), nil
}

// read is each of one call that only reads.
func (s *Store) read(ctx context.Context, q *query, do func(rows *sql.Rows, set int) error) error {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	return s.failed(s.each(ctx, s.db, q, do))
}

// each calls do for each row of each result.
func (s *Store) each(ctx context.Context, in interface {
	QueryContext(ctx context.Context, query string, args ...any) (*sql.Rows, error)
}, q *query, do func(rows *sql.Rows, set int) error) error {
	rows, err := in.QueryContext(ctx, q.sql.String(), q.args...)
	if err != nil {
		return err
	}
	defer rows.Close()
	for set := 0; ; set++ {
		for rows.Next() {
			if err := do(rows, set); err != nil {
				return err
			}
		}
		if !rows.NextResultSet() {
			return errors.Join(rows.Err(), rows.Close())
		}
	}
}

// Read is that of counter.Store. The server finds the members of the page again and joins their records, which takes it
// less time than a list of names.
func (s *Store) Read(ctx context.Context, of counter.Queue, set string, page []counter.Entry) ([]string, error) {
	queue, err := s.queue(of)
	if err != nil || len(page) == 0 {
		return nil, err
	}
	records, found := sqlstore.Read(page)
	q := new(query).page("SELECT m.name, d.data FROM strikes_member m FORCE INDEX (strikes_member_page) "+
		"STRAIGHT_JOIN strikes_doc d FORCE INDEX (PRIMARY) ON d.queue = m.queue AND d.name = concat('"+
		counter.Entry{}.Record()+"', m.name) AND (d.expires = 0 OR d.expires > "+micros+" DIV 1000)",
		queue, set, sqlstore.Before(page[0]), len(page))
	return records, s.read(ctx, q, func(rows *sql.Rows, _ int) error {
		var name, data sql.RawBytes
		err := rows.Scan(&name, &data)
		found(name, data)
		return err
	})
}

// Page is that of counter.Store.
func (s *Store) Page(ctx context.Context, of counter.Queue, set string, after counter.Entry, n int) (
	out []counter.Entry, err error) {
	queue, err := s.queue(of)
	if err != nil {
		return nil, err
	}
	q := new(query).page("SELECT m.name, m.score FROM strikes_member m", queue, set, after, n)
	err = s.read(ctx, q, func(rows *sql.Rows, _ int) error {
		var e counter.Entry
		err := rows.Scan(&e.Name, &e.Score)
		out = append(out, e)
		return err
	})
	return out[:min(n, len(out))], err
}

// page adds a query of the first n members after a place, or of up to twice as many. Those of the score where the last
// page ended are read by name in a statement of their own, because no server finds (score, name) < (x, y) by an index.
func (q *query) page(members string, queue []byte, set string, after counter.Entry, n int) *query {
	members += " WHERE m.queue = ? AND m.set_name = ?"
	const order = " ORDER BY m.score DESC, m.name DESC LIMIT ?"
	if after == (counter.Entry{}) {
		return q.add(members+order, queue, []byte(set), n)
	}
	q.add(members+" AND m.score = ? AND m.name < ?"+order+"; ", queue, []byte(set), after.Score, []byte(after.Name), n)
	return q.add(members+" AND m.score < ?"+order, queue, []byte(set), after.Score, n)
}

// Count is that of counter.Store.
func (s *Store) Count(ctx context.Context, of counter.Queue, set string, from int64) (n int, err error) {
	queue, err := s.queue(of)
	if err != nil {
		return 0, err
	}
	q := new(query).add("SELECT count(*) FROM strikes_member WHERE queue = ? AND set_name = ? AND score >= ?", queue,
		[]byte(set), from)
	err = s.read(ctx, q, func(rows *sql.Rows, _ int) error { return rows.Scan(&n) })
	return n, err
}
