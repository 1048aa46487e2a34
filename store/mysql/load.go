package mysql

import (
	"context"
	"database/sql"
	"errors"
	"slices"
	"strconv"
	"time"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// Load is that of counter.Store.
func (s *Store) Load(ctx context.Context, of counter.Queue, names ...string) (now time.Time, _ []counter.Doc, _ error) {
	q := new(query).add("SELECT " + micros)
	if len(names) > 0 {
		q.add("; SELECT name, data, version, expires FROM strikes_doc FORCE INDEX (PRIMARY) WHERE version > 0 AND "+
			"queue = ? AND name", s.base.Key(of)).in(names)
	}
	var at int64
	found := map[string]counter.Doc{}
	err := s.read(ctx, q, func(rows *sql.Rows, set int) error {
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
	return s.base.Failed(s.each(ctx, s.db, q, do))
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

// readBatch is the number of names in a query. MariaDB makes a temporary table of a longer list.
const readBatch = 500

// Read is that of counter.Store. The server finds the members again and joins their records, which takes it less time
// than a list of names. It then reads the records that are missing by name, because their members may have moved.
func (s *Store) Read(ctx context.Context, of counter.Queue, set string, page []counter.Entry) ([]string, error) {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	if len(page) == 0 {
		return nil, nil
	}
	queue := s.base.Key(of)
	out, next := make([]string, len(page)), 0
	var name, data sql.RawBytes
	before := counter.Entry{Name: page[0].Name + "\x00", Score: page[0].Score}
	q := new(query).add("SELECT m.name, d.data FROM (").page(queue, set, before, len(page)).add(") m STRAIGHT_JOIN "+
		"strikes_doc d FORCE INDEX (PRIMARY) ON d.queue = ? AND d.name = concat(?, m.name) WHERE d.expires = 0 "+
		"OR d.expires > "+micros+" DIV 1000", queue, []byte(counter.Entry{}.Record()))
	if err := s.read(ctx, q, func(rows *sql.Rows, _ int) error {
		err := rows.Scan(&name, &data)
		if i := slices.IndexFunc(page[next:], func(e counter.Entry) bool { return e.Name == string(name) }); i >= 0 {
			out[next+i], next = string(data), next+i+1
		}
		return err
	}); err != nil {
		return nil, err
	}
	var moved []int
	for i, data := range out {
		if data == "" {
			moved = append(moved, i)
		}
	}
	for some := range slices.Chunk(moved, readBatch) {
		var names []string
		for _, i := range some {
			names = append(names, page[i].Record())
		}
		_, docs, err := s.Load(ctx, of, names...)
		if err != nil {
			return nil, err
		}
		for i, d := range docs {
			out[some[i]] = d.Data
		}
	}
	return out, nil
}

// Page is that of counter.Store.
func (s *Store) Page(ctx context.Context, of counter.Queue, set string, after counter.Entry, n int) (
	out []counter.Entry, err error) {
	err = s.read(ctx, new(query).page(s.base.Key(of), set, after, n), func(rows *sql.Rows, _ int) error {
		var e counter.Entry
		err := rows.Scan(&e.Name, &e.Score)
		out = append(out, e)
		return err
	})
	return out, err
}

// page adds a query of members. Those of the score where the last page ended are read by name.
func (q *query) page(queue []byte, set string, after counter.Entry, n int) *query {
	const part, end = "(SELECT name, score FROM strikes_member WHERE queue = ? AND set_name = ?",
		" ORDER BY score DESC, name DESC LIMIT ?)"
	if after == (counter.Entry{}) {
		return q.add(part+end, queue, []byte(set), n)
	}
	q.add(part+" AND score = ? AND name < ?"+end+" UNION ALL ", queue, []byte(set), after.Score, []byte(after.Name), n)
	return q.add(part+" AND score < ?"+end+" ORDER BY score DESC, name DESC LIMIT ?", queue, []byte(set), after.Score, n,
		n)
}

// Count is that of counter.Store.
func (s *Store) Count(ctx context.Context, of counter.Queue, set string, from int64) (n int, err error) {
	q := new(query).add("SELECT count(*) FROM strikes_member WHERE queue = ? AND set_name = ? AND score >= ?",
		s.base.Key(of), []byte(set), from)
	err = s.read(ctx, q, func(rows *sql.Rows, _ int) error { return rows.Scan(&n) })
	return n, err
}
