package postgres

import (
	"context"
	"strconv"
	"time"

	"github.com/jackc/pgx/v5"
	"github.com/jackc/pgx/v5/pgtype"

	"github.com/strikesmq/strikes/counter"
	"github.com/strikesmq/strikes/internal/sqlstore"
)

// byName reads the documents that $2 names. A condition with an array of names would do too. But while the table has no
// statistics, PostgreSQL then reads the whole queue for a hundred names.
const byName = `unnest($2::bytea[]) WITH ORDINALITY AS t (name, place), LATERAL (SELECT * FROM strikes_doc
	WHERE queue = $1 AND name = t.name OFFSET 0) d`

const loadSQL = `SELECT t.now, d.name, d.data, d.version, d.expires, d.sums
	FROM (SELECT ` + micros + ` AS now) t LEFT JOIN (SELECT d.* FROM ` + byName + `) d ON true`

// Load is that of counter.Store.
func (s *Store) Load(ctx context.Context, of counter.Queue, names ...string) (now time.Time, _ []counter.Doc, _ error) {
	found := map[string]counter.Doc{}
	var at int64
	var name, data []byte
	var version, expires *int64
	var sums map[string]int64
	scans := []any{&at, &name, &data, &version, &expires, &sums}
	err := s.query(ctx, loadSQL, []any{s.base.Key(of), namesOf(names)}, scans, func() {
		if version == nil || *expires > 0 && *expires <= at/1000 {
			return
		}
		d := counter.Doc{Name: string(name), Data: string(data), Version: strconv.FormatInt(*version, 10),
			Expires: sqlstore.Time(*expires)}
		for field, by := range sums {
			d.Data = counter.AddTo(d.Data, counter.Sum{Field: field, By: by})
		}
		found[d.Name], sums = d, nil
	})
	if err != nil {
		return now, nil, err
	}
	return time.UnixMicro(at).UTC(), sqlstore.Docs(names, found), nil
}

const readSQL = `SELECT t.place, d.data FROM (SELECT ` + micros + ` / 1000 AS now OFFSET 0) c, ` + byName + `
	WHERE d.expires = 0 OR d.expires > c.now`

// Read is that of counter.Store.
func (s *Store) Read(ctx context.Context, of counter.Queue, _ string, page []counter.Entry) ([]string, error) {
	names := make([]string, len(page))
	for i, e := range page {
		names[i] = e.Record()
	}
	out := make([]string, len(page))
	var place int
	var data pgtype.DriverBytes
	err := s.query(ctx, readSQL, []any{s.base.Key(of), namesOf(names)}, []any{&place, &data}, func() {
		out[place-1] = string(data)
	})
	if err != nil {
		return nil, err
	}
	return out, nil
}

const (
	inSet      = ` FROM strikes_member WHERE queue = $1 AND "set" = $2 AND ` + anyScore
	membersSQL = `SELECT name, score` + inSet
	firstSQL   = membersSQL + ` ORDER BY score DESC, name DESC LIMIT $3`
	nextSQL    = membersSQL + ` AND (score, name) < ($4, $5) ORDER BY score DESC, name DESC LIMIT $3`
)

// Page is that of counter.Store.
func (s *Store) Page(ctx context.Context, of counter.Queue, set string, after counter.Entry, n int) (
	out []counter.Entry, err error) {
	sql, args := firstSQL, []any{s.base.Key(of), []byte(set), n}
	if after != (counter.Entry{}) {
		sql, args = nextSQL, append(args, after.Score, []byte(after.Name))
	}
	var name []byte
	var score int64
	err = s.query(ctx, sql, args, []any{&name, &score}, func() {
		out = append(out, counter.Entry{Name: string(name), Score: score})
	})
	return out, err
}

const countSQL = `SELECT count(*)` + inSet + ` AND score >= $3`

// Count is that of counter.Store.
func (s *Store) Count(ctx context.Context, of counter.Queue, set string, from int64) (n int, err error) {
	err = s.query(ctx, countSQL, []any{s.base.Key(of), []byte(set), from}, []any{&n}, func() {})
	return n, err
}

// query calls each for the rows of a query, after their columns are in scans. The plan uses an index in its order.
func (s *Store) query(ctx context.Context, sql string, args, scans []any, each func()) error {
	ctx, cancel := s.base.Within(ctx)
	defer cancel()
	query := &pgx.QueuedQuery{SQL: sql, Arguments: args}
	query.Query(func(rows pgx.Rows) error {
		_, err := pgx.ForEachRow(rows, scans, func() error { each(); return nil }) // also the error of the query
		return err
	})
	return s.base.Failed(s.run(ctx, query))
}
